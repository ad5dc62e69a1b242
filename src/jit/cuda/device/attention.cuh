//@ kAttentionCommon
constexpr int kChunks = kHead / 8, kSteps = kHead / 16;
constexpr int kPiece = 16 / sizeof(Element),
              kPieces = kHead / kPiece;  // elements of 16 bytes, and how many such a row has
constexpr f32 kLog2e = 1.4426950408889634f, kLn2 = 0.6931471805599453f;
#if MASK
#define MEET(stage) any_thread(mask.has_any(stage))
template <class T> DEVICE MaskElement* mask_room(T* x) { return reinterpret_cast<MaskElement*>(x); }
#else
#define MEET(stage) (__syncthreads(), true)
#endif
DEVICE f32 nothing() { return __uint_as_float(0xff800000u); }  // what exp2 makes zero of

// A matrix a batch; strides in elements.
template <class T> struct RowsOf {
  T* data;
  i64 outer, inner, row, column, width;
};
using Rows = RowsOf<Element>;
struct Numbers {  // one a row
  f32* data;
  i64 outer, inner, row;
};
struct Batch {
  i64 outer, inner;
  DEVICE Batch at(u32 batch, i64 inners) {  // in 32 bits, as 64 are divided by a function
    return {batch / static_cast<u32>(inners), batch % static_cast<u32>(inners)};
  }
  template <class T> METHOD auto operator()(const T& x) const { return x.data + outer * x.outer + inner * x.inner; }
};

// R rows in shared memory, arranged so that eight threads that read a column of 16 bytes find it in different banks:
// each row is 16 bytes longer; or, as warpgroups read them, columns of 128 bytes are one after the other, and pieces of
// 16 bytes are permuted by the row.
template <int R> struct Tile {
  static constexpr int kRow = kWarpgroups ? kHead : kHead + kPiece, kElements = R * kRow;
  static constexpr int kDown = kWarpgroups ? 64 : kRow;  // from a row to the next, in a column of 128 bytes
  Element* data;
  METHOD Element* at(int row, int column) const {
    if (!kWarpgroups) return data + row * kRow + column;
    return data + column / 64 * (R * 64) + row * 64 + ((column / 8 % 8) ^ (row % 8)) * 8 + column % 8;
  }
  METHOD Tile stage(int i) const { return {data + i * kElements}; }
};

// Rows of a matrix of `count` rows, from `first` on; zeros beyond its ends.
template <int T, int R> DEVICE void load_tile(Tile<R> tile, const Rows& x, const Element* data, int first, int count) {
  static_assert(R * kPieces % T == 0, "each thread copies as much");
  UNROLL for (int i = 0; i < R * kPieces / T; ++i) {
    const int at = i * T + threadIdx.x, row = at / kPieces, column = at % kPieces * kPiece;
    Element* const to = tile.at(row, column);
    const bool inside = first + row < count && column < x.width;
    const Element* const from = data + (inside ? (first + row) * x.row + column * x.column : 0);
    if (kAligned) {
      copy_async(shared_address(to), from, inside);
    } else {
      _Pragma("unroll 1") for (int k = 0; k < kPiece; ++k) {
        to[k] = inside && column + k < x.width ? from[k * x.column] : Element(0);
      }
    }
  }
}

// Loads a matrix one tile of R rows after the other, from `first` on, into stages of `tile`. A thread copies of one
// column where it can: its addresses are sums then, where products of 64 bits would be as many instructions as a tile's
// weights.
template <int T, int R> struct Tiles {
  static constexpr int kApart = T < kPieces ? 1 : T / kPieces;
  static constexpr bool kColumn = kAligned && T % kPieces == 0 && R % kApart == 0 && (!kWarpgroups || kApart % 8 == 0);
  Tile<R> tile;
  const Rows& x;
  const Element *data, *from;
  int first, count, left;
  u32 to;
  METHOD Tiles(Tile<R> tile, const Rows& x, const Element* data, int first, int count)
      : tile(tile), x(x), data(data), first(first), count(count) {
    const int row = threadIdx.x / kPieces, column = threadIdx.x % kPieces * kPiece;
    from = data + (first + row) * x.row + column;
    left = column < x.width ? count - first - row : 0;
    to = shared_address(tile.at(row, column));
  }
  METHOD void next(int stage) {
    if (kColumn) {
      constexpr int kBytes = static_cast<int>(sizeof(Element));
      u32 at = to + stage * Tile<R>::kElements * kBytes;
      UNROLL for (int i = 0; i < R / kApart; ++i) {
        copy_async(at, from, i * kApart < left);
        at += kApart * Tile<R>::kDown * kBytes;
        from += kApart * x.row;
      }
      left -= R;
    } else {
      load_tile<T>(tile.stage(stage), x, data, first, count);
      first += R;
    }
  }
};

// Scores are in units of log2; where numbers are added to them, of e, so that the lowest that a number can be is no
// less than nothing and rows of such numbers alone are means.
constexpr f32 kUnit = MASK == 2 ? 1.0f : kLog2e;
DEVICE f32 weight_of(f32 score, f32 offset) {
  return exp2_fast(MASK == 2 ? (score - offset) * kLog2e : score - offset);
}
// Rows that see nothing, or only the lowest numbers there are, have no gradient.
DEVICE f32 offset_of(f32 lse) { return MASK && lse < -1e30f ? -nothing() : lse * kUnit; }

template <int M, int N> DEVICE void clear(f32 (&c)[M][N][4]) {
  UNROLL for (int m = 0; m < M; ++m) {
    UNROLL for (int n = 0; n < N; ++n) { UNROLL for (int i = 0; i < 4; ++i) c[m][n][i] = 0; }
  }
}
//@ kAttentionRest
// A thread's four elements of the 16 x 8 that a warp holds are in kHeld rows, which kSharers threads have parts of.
constexpr int kHeld = 4 / kBeside, kSharers = 8 / kBeside;
// Over the threads that have elements of the same rows.
DEVICE f32 most_of_row(f32 x) {
  UNROLL for (int lane = kNextSharer; lane < kNextSharer * kSharers; lane *= 2) x = fmaxf(x, shuffle_xor(x, lane));
  return x;
}
DEVICE f32 sum_of_row(f32 x) {
  UNROLL for (int lane = kNextSharer; lane < kNextSharer * kSharers; lane *= 2) x += shuffle_xor(x, lane);
  return x;
}
// A group goes through the same tiles: a warp of 16 M rows, or a warpgroup.
DEVICE int first_of_group(int row) { return kWarpgroups ? row / 64 * 64 : row; }
DEVICE int last_of_group(int row, int m) { return kWarpgroups ? row / 64 * 64 + 63 : row + 16 * m - 1; }

// Writes a warp's 16 M rows, rounded. The rows of `tile` from `row` on are room for them that no other warp reads.
template <int R, int M>
DEVICE void store_rows(Tile<R> tile, int row, const f32 (&c)[M][kChunks][4], const Rows& x, Element* data, int first,
                       int count) {
  __syncwarp();
  UNROLL for (int m = 0; m < M; ++m) {
    UNROLL for (int d = 0; d < kChunks; ++d) {
      UNROLL for (int i = 0; i < 4; i += kBeside)
          put(tile.at(row + m * 16 + row_in_tile(i), result_column(d, i)), c[m][d], i);
    }
  }
  __syncwarp();
  const int lane = threadIdx.x % 32;
  constexpr bool kColumn = kAligned && 32 % kPieces == 0;  // a thread writes of one column, so that addresses are sums
  Element* next = data + (first + lane / kPieces) * x.row + lane % kPieces * kPiece;
  UNROLL for (int i = 0; i < M * kPieces / 2; ++i) {
    const int at = i * 32 + lane, r = at / kPieces, column = at % kPieces * kPiece;
    Element* const to = kColumn ? next : data + (first + r) * x.row + column * x.column;
    next += 32 / kPieces * x.row;
    if (first + r >= count || column >= x.width) continue;
    const Element* const from = tile.at(row + r, column);
    if (kAligned) {
      *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
    } else {
      for (int k = 0; k < kPiece && column + k < x.width; ++k) to[k * x.column] = from[k];
    }
  }
}
//@ kAttentionMask
// A block's part of the mask in shared memory, twice: R queries and C keys. Rows are 16 bytes longer, as those of
// `Tile`.
template <int T, int R, int C> struct MaskTile {
  static constexpr int kPiece = 16 / sizeof(MaskElement), kPieces = C / kPiece, kRow = C + kPiece;
  struct alignas(kBeside * sizeof(MaskElement)) Beside {
    MaskElement x[kBeside];
  };
  const RowsOf<MaskElement>& x;
  const MaskElement* from;
  int queries, keys;
  MaskElement* data;

  METHOD MaskElement* at(int stage, int row, int column) const { return data + (stage * R + row) * kRow + column; }
  METHOD Beside beside(int stage, int row, int column) const {
    return *reinterpret_cast<const Beside*>(at(stage, row, column));
  }
  METHOD void load(int stage, int query, int key) const {
    UNROLL for (int i = 0; i < R * kPieces; i += T) {
      const int row = (i + threadIdx.x) / kPieces, column = (i + threadIdx.x) % kPieces * kPiece;
      if (row >= R) break;
      const bool inside = query + row < queries && key + column < keys;
      const MaskElement* const source = from + (inside ? (query + row) * x.row + (key + column) * x.column : 0);
      MaskElement* const to = at(stage, row, column);
      if (kMaskAligned) {
        copy_async(shared_address(to), source, inside);
      } else {
        _Pragma("unroll 1") for (int k = 0; k < kPiece; ++k) {
          to[k] = inside && key + column + k < keys ? source[k * x.column] : MaskElement(0);
        }
      }
    }
  }
  // Whether there is more than nothing in what the thread has loaded.
  METHOD bool has_any(int stage) const {
    bool any = false;
    UNROLL for (int i = 0; i < R * kPieces; i += T) {
      const int row = (i + threadIdx.x) / kPieces, column = (i + threadIdx.x) % kPieces * kPiece;
      if (row >= R) break;
      const uint4 bits = *reinterpret_cast<const uint4*>(at(stage, row, column));
      any |= bits.x != kNothingBits || bits.y != kNothingBits || bits.z != kNothingBits || bits.w != kNothingBits;
    }
    return any;
  }
};
//@ kAttentionForward
struct ForwardArguments {
  Rows query, key, value, result;
#if MASK
  RowsOf<MaskElement> mask;
#endif
  Numbers lse;
  i64 batches, inners, queries, keys;
  f64 scale;
};

// A block takes queries, 16 M a warp, and goes through the keys.
extern "C" __global__ void __launch_bounds__(kForwardThreads, kForwardBlocks)
    attention_forward(const __grid_constant__ ForwardArguments a) {
  constexpr int T = kForwardThreads, M = kForwardTiles, kRows = T / 2 * M, kColumns = kForwardColumns, N = kColumns / 8;
  const int queries = static_cast<int>(a.queries), keys = static_cast<int>(a.keys), warp = warp_number();
  const u32 batches = static_cast<u32>(a.batches);
  const int blocks = (queries + kRows - 1) / kRows, block = static_cast<int>(blockIdx.x / batches);
  const int first = (kCausal ? blocks - 1 - block : block) * kRows;  // the longest first
  const Batch batch = Batch::at(blockIdx.x % batches, a.inners);
  const Tile<kRows> query_tile{reinterpret_cast<Element*>(shared + kForwardStaging)};
  const Tile<kColumns> key_tiles{query_tile.data + query_tile.kElements};
  const Tile<kColumns> value_tiles{key_tiles.data + 2 * key_tiles.kElements};
  const int reach = kCausal && first + kRows < keys ? first + kRows : keys;
  const int my_row = warp * 16 * M, my_first = first + my_row, group_last = first + last_of_group(my_row, M);

  Tiles<T, kRows>(query_tile, a.query, batch(a.query), first, queries).next(0);
  Tiles<T, kColumns> all_keys(key_tiles, a.key, batch(a.key), 0, keys);
  Tiles<T, kColumns> all_values(value_tiles, a.value, batch(a.value), 0, keys);
  all_keys.next(0);
  all_values.next(0);
#if MASK
  const MaskTile<T, kRows, kColumns> mask{a.mask, batch(a.mask), queries, keys, mask_room(value_tiles.stage(2).data)};
  mask.load(0, first, 0);
#endif
  finish_copies();
  prepare_tile<T>(query_tile);
  __syncthreads();

  Left left;
  left.take(query_tile, my_row);
  const u32 right = right_address(key_tiles), weighed = weighed_address(value_tiles);
  const f32 scale = static_cast<f32>(a.scale) * kUnit, factor = kPositive ? scale : kLog2e / kUnit;
  f32 result[M][kChunks][4], most[M][kHeld], total[M][kHeld];
  clear(result);
  UNROLL for (int m = 0; m < M; ++m) { UNROLL for (int h = 0; h < kHeld; ++h) most[m][h] = nothing(), total[m][h] = 0; }

  for (int column = 0, stage = 0; column < reach; column += kColumns, stage ^= 1) {
    finish_copies();
    prepare_tile<T>(key_tiles.stage(stage));
    prepare_tile<T>(value_tiles.stage(stage));
    const bool any = MEET(stage);
    if (column + kColumns < reach) {
      all_keys.next(stage ^ 1);
      all_values.next(stage ^ 1);
#if MASK
      mask.load(stage ^ 1, first, column + kColumns);
#endif
    }
    if (!any || (kCausal && column > group_last)) continue;

    f32 p[M][N][4];
    start_rows<kColumns>(p, left, moved<kColumns>(right, stage, 0));
    finish_products<0>(p);
    if (!kPositive) {
      UNROLL for (int m = 0; m < M; ++m) {
        UNROLL for (int n = 0; n < N; ++n) { UNROLL for (int i = 0; i < 4; ++i) p[m][n][i] *= scale; }
      }
    }
#if MASK
    UNROLL for (int m = 0; m < M; ++m) {
      UNROLL for (int n = 0; n < N; ++n) {
        UNROLL for (int h = 0; h < kHeld; ++h) {
          const int i = h * kBeside;
          const auto beside = mask.beside(stage, my_row + m * 16 + row_in_tile(i), n * 8 + column_in_tile(i));
          UNROLL for (int j = 0; j < kBeside; ++j) {
#if MASK == 1
            if (!beside.x[j]) p[m][n][i + j] = nothing();
#else
            p[m][n][i + j] += widen(beside.x[j]);
#endif
          }
        }
      }
    }
#endif
    if (column + kColumns > keys || (kCausal && column + kColumns - 1 > my_first)) {
      UNROLL for (int m = 0; m < M; ++m) {
        UNROLL for (int n = 0; n < N; ++n) {
          UNROLL for (int i = 0; i < 4; ++i) {
            const int k = column + n * 8 + column_in_tile(i);
            if (k >= keys || (kCausal && k > my_first + m * 16 + row_in_tile(i))) p[m][n][i] = nothing();
          }
        }
      }
    }
    UNROLL for (int m = 0; m < M; ++m) {
      UNROLL for (int h = 0; h < kHeld; ++h) {
        f32 now = most[m][h];
        UNROLL for (int n = 0; n < N; ++n) {
          UNROLL for (int i = h * kBeside; i < (h + 1) * kBeside; ++i) now = fmaxf(now, p[m][n][i]);
        }
        now = most_of_row(now);
        const f32 from = MASK && now == nothing() ? 0.0f : now;  // else a row that saw nothing yet would be nan
        const f32 shrink = exp2_fast((most[m][h] - from) * factor), offset = from * factor;
        most[m][h] = now;
        f32 sum = 0;
        UNROLL for (int n = 0; n < N; ++n) {
          UNROLL for (int i = h * kBeside; i < (h + 1) * kBeside; ++i) {
            p[m][n][i] = exp2_fast(MASK == 2 ? (p[m][n][i] - from) * factor : p[m][n][i] * factor - offset);
            sum += p[m][n][i];
          }
        }
        total[m][h] = total[m][h] * shrink + sum;
        UNROLL for (int d = 0; d < kChunks; ++d) {
          UNROLL for (int i = h * kBeside; i < (h + 1) * kBeside; ++i) result[m][d][i] *= shrink;
        }
      }
    }
    start_weights<kColumns>(result, p, moved<kColumns>(weighed, stage, 0));
    finish_products<0>(result);
  }

  f32* const lse = batch(a.lse);
  UNROLL for (int m = 0; m < M; ++m) {
    UNROLL for (int h = 0; h < kHeld; ++h) {
      const f32 sum = sum_of_row(total[m][h]);
      const int row = my_first + m * 16 + row_in_tile(h * kBeside);
      if (column_in_tile(0) == 0 && row < queries) lse[row * a.lse.row] = (most[m][h] * factor + log2_fast(sum)) * kLn2;
      const f32 inverse = MASK && sum == 0 ? 0.0f : 1.0f / sum;
      UNROLL for (int d = 0; d < kChunks; ++d) {
        UNROLL for (int i = h * kBeside; i < (h + 1) * kBeside; ++i) result[m][d][i] *= inverse;
      }
    }
  }
  store_rows(query_tile, my_row, result, a.result, batch(a.result), my_first, queries);
}
//@ kAttentionBackwardArguments
struct BackwardArguments {
  Rows grad, query, key, value, result, grad_query, grad_key, grad_value;
#if MASK
  RowsOf<MaskElement> mask;
#endif
  Numbers lse, delta;
  i64 batches, inners, queries, keys;
  f64 scale;
};
//@ kAttentionGradQuery
// The sum of x y over a thread's eighth of a row.
DEVICE f32 dot_row(const Rows& x, const Element* x_row, const Rows& y, const Element* y_row) {
  f32 sum = 0;
  UNROLL for (int piece = 0; piece < kPieces; piece += 8) {
    const int column = (piece + threadIdx.x % 8) * kPiece, safe = column < x.width ? column : 0;
    Element xs[kPiece] = {}, ys[kPiece] = {};
    if (kAligned) {
      *reinterpret_cast<uint4*>(xs) = *reinterpret_cast<const uint4*>(x_row + safe);
      *reinterpret_cast<uint4*>(ys) = *reinterpret_cast<const uint4*>(y_row + safe);
    } else {
      for (int k = 0; k < kPiece && column + k < x.width; ++k) {
        xs[k] = x_row[(column + k) * x.column];
        ys[k] = y_row[(column + k) * y.column];
      }
    }
    f32 of_piece = 0;
    UNROLL for (int k = 0; k < kPiece; ++k) of_piece += widen(xs[k]) * widen(ys[k]);
    sum += column < x.width ? of_piece : 0;
  }
  return sum;
}
// Eight threads have dots[i] of row 4 i + j: that of a row of 16.
DEVICE f32 dot_of(const f32* dots, int row) {
  f32 x = 0;
  UNROLL for (int i = 0; i < 4; ++i) {
    const f32 y = shuffle(dots[i], row % 4 * 8);
    if (i == row / 4) x = y;
  }
  return x;
}

// A block takes queries, and goes through the keys. First it says what rows of grad times result sum to.
extern "C" __global__ void __launch_bounds__(kGradQueryThreads, kGradQueryBlocks)
    attention_grad_query(const __grid_constant__ BackwardArguments a) {
  constexpr int T = kGradQueryThreads, M = kGradQueryTiles, kRows = T / 2 * M, kColumns = kGradQueryColumns;
  constexpr int kPart = kGradQueryPart, N = kPart / 8;
  const int queries = static_cast<int>(a.queries), keys = static_cast<int>(a.keys), warp = warp_number();
  const u32 batches = static_cast<u32>(a.batches);
  const int blocks = (queries + kRows - 1) / kRows, block = static_cast<int>(blockIdx.x / batches);
  const int first = (kCausal ? blocks - 1 - block : block) * kRows;
  const Batch batch = Batch::at(blockIdx.x % batches, a.inners);
  const Tile<kRows> query_tile{reinterpret_cast<Element*>(shared + kGradQueryStaging)}, grad_tile = query_tile.stage(1);
  const Tile<kColumns> key_tiles{grad_tile.data + grad_tile.kElements};
  const Tile<kColumns> value_tiles{key_tiles.data + 2 * key_tiles.kElements};
  const Element* const grad = batch(a.grad);
  const int reach = kCausal && first + kRows < keys ? first + kRows : keys;
  const int my_row = warp * 16 * M, my_first = first + my_row, group_last = first + last_of_group(my_row, M);

  Tiles<T, kRows>(query_tile, a.query, batch(a.query), first, queries).next(0);
  Tiles<T, kRows>(grad_tile, a.grad, grad, first, queries).next(0);
  Tiles<T, kColumns> all_keys(key_tiles, a.key, batch(a.key), 0, keys);
  Tiles<T, kColumns> all_values(value_tiles, a.value, batch(a.value), 0, keys);
  all_keys.next(0);
  all_values.next(0);

  const Element* const result = batch(a.result);
  f32* const delta = batch(a.delta);
  f32 dots[M][4];  // of rows at once, as each waits for memory
  UNROLL for (int i = 0; i < 4 * M; ++i) {
    const int row = my_first + threadIdx.x % 32 / 8 + i * 4;
    const i64 safe = row < queries ? row : 0;
    dots[i / 4][i % 4] = dot_row(a.grad, grad + safe * a.grad.row, a.result, result + safe * a.result.row);
  }
  UNROLL for (int i = 0; i < 4 * M; ++i) {
    const int row = my_first + threadIdx.x % 32 / 8 + i * 4;
    f32& dot = dots[i / 4][i % 4];
    UNROLL for (int mask = 1; mask < 8; mask *= 2) dot += shuffle_xor(dot, mask);
    if (threadIdx.x % 8 == 0 && row < queries) delta[row * a.delta.row] = dot;
  }
  const f32 scale = static_cast<f32>(a.scale) * kUnit;
#if MASK
  const MaskTile<T, kRows, kColumns> mask{a.mask, batch(a.mask), queries, keys, mask_room(value_tiles.stage(2).data)};
  mask.load(0, first, 0);
#endif
  const f32* const lse = batch(a.lse);
  f32 offset[M][kHeld], sums[M][kHeld];
  UNROLL for (int m = 0; m < M; ++m) {
    UNROLL for (int h = 0; h < kHeld; ++h) {
      const int row = my_first + m * 16 + row_in_tile(h * kBeside);
      offset[m][h] = offset_of(row < queries ? lse[row * a.lse.row] : 0.0f);
      sums[m][h] = dot_of(dots[m], row_in_tile(h * kBeside));
    }
  }

  finish_copies();
  prepare_tile<T>(query_tile);
  prepare_tile<T>(grad_tile);
  __syncthreads();
  Left left, left_grad;
  left.take(query_tile, my_row);
  left_grad.take(grad_tile, my_row);
  const u32 right = right_address(key_tiles), right_value = right_address(value_tiles);
  const u32 weighed = weighed_address(key_tiles);
  f32 out[M][kChunks][4];
  clear(out);
  for (int column = 0, stage = 0; column < reach; column += kColumns, stage ^= 1) {
    finish_copies();
    prepare_tile<T>(key_tiles.stage(stage));
    prepare_tile<T>(value_tiles.stage(stage));
    const bool any = MEET(stage);
    if (column + kColumns < reach) {
      all_keys.next(stage ^ 1);
      all_values.next(stage ^ 1);
#if MASK
      mask.load(stage ^ 1, first, column + kColumns);
#endif
    }
    _Pragma("unroll 1") for (int part = 0; part < kColumns; part += kPart) {
      const int begin = column + part;
      if (!any || begin >= keys || (kCausal && begin > group_last)) continue;
      f32 p[M][N][4], ds[M][N][4];
      start_rows<kColumns>(p, left, moved<kColumns>(right, stage, part));
      start_rows<kColumns>(ds, left_grad, moved<kColumns>(right_value, stage, part));
      const bool masked = begin + kPart > keys || (kCausal && begin + kPart - 1 > my_first);
      finish_products<1>(p);
      UNROLL for (int m = 0; m < M; ++m) {
        UNROLL for (int n = 0; n < N; ++n) {
          UNROLL for (int h = 0; h < kHeld; ++h) {
#if MASK
            const int row = my_row + m * 16 + row_in_tile(h * kBeside);
            const auto beside = mask.beside(stage, row, part + n * 8 + column_in_tile(0));
#endif
            UNROLL for (int j = 0; j < kBeside; ++j) {
              const int i = h * kBeside + j;
              f32 score = p[m][n][i] * scale;
#if MASK == 2
              score += widen(beside.x[j]);
#endif
              p[m][n][i] = weight_of(score, offset[m][h]);
#if MASK == 1
              if (!beside.x[j]) p[m][n][i] = 0;
#endif
            }
          }
        }
      }
      if (masked) {  // apart, so that other tiles pass it by
        UNROLL for (int m = 0; m < M; ++m) {
          UNROLL for (int n = 0; n < N; ++n) {
            UNROLL for (int i = 0; i < 4; ++i) {
              const int k = begin + n * 8 + column_in_tile(i);
              if (k >= keys || (kCausal && k > my_first + m * 16 + row_in_tile(i))) p[m][n][i] = 0;
            }
          }
        }
      }
      finish_products<0>(ds);
      UNROLL for (int m = 0; m < M; ++m) {
        UNROLL for (int n = 0; n < N; ++n) {
          UNROLL for (int i = 0; i < 4; ++i) ds[m][n][i] = p[m][n][i] * (ds[m][n][i] - sums[m][i / kBeside]);
        }
      }
      start_weights<kColumns>(out, ds, moved<kColumns>(weighed, stage, part));
      finish_products<0>(out);
    }
  }
  UNROLL for (int m = 0; m < M; ++m) {
    UNROLL for (int d = 0; d < kChunks; ++d) {
      UNROLL for (int i = 0; i < 4; ++i) out[m][d][i] *= static_cast<f32>(a.scale);
    }
  }
  __syncthreads();
  store_rows(query_tile, my_row, out, a.grad_query, batch(a.grad_query), my_first, queries);
}
//@ kAttentionGradKey
// A block takes keys and values, and goes through the queries. Scores are transposed: a warp has its keys' rows.
extern "C" __global__ void __launch_bounds__(kGradKeyThreads, kGradKeyBlocks)
    attention_grad_key_value(const __grid_constant__ BackwardArguments a) {
  constexpr int T = kGradKeyThreads, M = kGradKeyTiles, kRows = T / 2 * M, kColumns = kGradKeyColumns;
  constexpr int kPart = kGradKeyPart, N = kPart / 8;
  const int queries = static_cast<int>(a.queries), keys = static_cast<int>(a.keys), warp = warp_number();
  const u32 batches = static_cast<u32>(a.batches);
  const int first = static_cast<int>(blockIdx.x / batches) * kRows;
  const Batch batch = Batch::at(blockIdx.x % batches, a.inners);
  const Tile<kRows> key_tile{reinterpret_cast<Element*>(shared + kGradKeyStaging)}, value_tile = key_tile.stage(1);
  const Tile<kColumns> query_tiles{value_tile.data + value_tile.kElements};
  const Tile<kColumns> grad_tiles{query_tiles.data + 2 * query_tiles.kElements};
  f32* const offsets = reinterpret_cast<f32*>(grad_tiles.data + 2 * grad_tiles.kElements);
  f32* const sums = offsets + 2 * kColumns;
  const int my_row = warp * 16 * M, my_first = first + my_row, group_last = first + last_of_group(my_row, M);
#if MASK
  const MaskTile<T, kColumns, kRows> mask{a.mask, batch(a.mask), queries, keys, mask_room(sums + 2 * kColumns)};
#endif
  const int begin = kCausal ? first / kColumns * kColumns : 0;  // queries before see none of these keys
  Tiles<T, kColumns> all_queries(query_tiles, a.query, batch(a.query), begin, queries);
  Tiles<T, kColumns> all_grads(grad_tiles, a.grad, batch(a.grad), begin, queries);
  // One half of the threads copies numbers of one kind, the other of the other. Rows beyond the last have zeros
  // everywhere: what they add is zero.
  static_assert(2 * kColumns <= T, "a thread a number");
  const bool has_lse = threadIdx.x < kColumns;
  const int my_query = has_lse ? threadIdx.x : threadIdx.x - kColumns;
  const Numbers& numbers = has_lse ? a.lse : a.delta;
  const f32* number = batch(numbers) + (begin + my_query) * numbers.row;
  const i64 next_numbers = kColumns * numbers.row;
  const u32 number_to = shared_address((has_lse ? offsets : sums) + my_query);
  const auto load = [&](int stage, int from) {
#if MASK
    mask.load(stage, from, first);
#endif
    all_queries.next(stage);
    all_grads.next(stage);
    if (T > 2 * kColumns && threadIdx.x >= 2 * kColumns) return;
    copy_number(number_to + stage * kColumns * 4, number, from + my_query < queries);
    number += next_numbers;
  };

  Tiles<T, kRows>(key_tile, a.key, batch(a.key), first, keys).next(0);
  Tiles<T, kRows>(value_tile, a.value, batch(a.value), first, keys).next(0);
  if (begin < queries) load(0, begin);
  finish_copies();
  prepare_tile<T>(key_tile);
  prepare_tile<T>(value_tile);
  __syncthreads();

  Left left, left_value;
  left.take(key_tile, my_row);
  left_value.take(value_tile, my_row);
  const u32 right = right_address(query_tiles), right_grad = right_address(grad_tiles);
  const u32 weighed = weighed_address(query_tiles), weighed_grad = weighed_address(grad_tiles);
  const f32 scale = static_cast<f32>(a.scale) * kUnit;
  // Three blocks a multiprocessor of parts of 64 have no registers for a product that reads its weights while the next
  // are made.
  constexpr bool kLate = kWarpgroups && kGradKeyBlocks > 2 && kPart == 64;
  f32 grad_key[M][kChunks][4], grad_value[M][kChunks][4];
  clear(grad_key);
  clear(grad_value);
  for (int column = begin, stage = 0; column < queries; column += kColumns, stage ^= 1) {
    finish_copies();
    prepare_tile<T>(query_tiles.stage(stage));
    prepare_tile<T>(grad_tiles.stage(stage));
    const bool any = MEET(stage);
    if (column + kColumns < queries) load(stage ^ 1, column + kColumns);
    _Pragma("unroll 1") for (int part = 0; part < kColumns; part += kPart) {
      const int from = column + part, row = stage * kColumns + part;
      if (!any || from >= queries || (kCausal && from + kPart - 1 < first + first_of_group(my_row))) continue;
      f32 p[M][N][4], ds[M][N][4];
      start_rows<kColumns>(p, left, moved<kColumns>(right, stage, part));
      start_rows<kColumns>(ds, left_value, moved<kColumns>(right_grad, stage, part));
      const bool masked = kCausal && from < group_last;
      finish_products<1>(p);
      UNROLL for (int n = 0; n < N; ++n) {
        UNROLL for (int j = 0; j < kBeside; ++j) {
          const f32 offset = offset_of(offsets[row + n * 8 + column_in_tile(j)]);
          UNROLL for (int m = 0; m < M; ++m) {
            UNROLL for (int i = j; i < 4; i += kBeside) {
              f32 score = p[m][n][i] * scale;
#if MASK
              const MaskElement x = *mask.at(stage, part + n * 8 + column_in_tile(j), my_row + m * 16 + row_in_tile(i));
#endif
#if MASK == 2
              score += widen(x);
#endif
              p[m][n][i] = weight_of(score, offset);
#if MASK == 1
              if (!x) p[m][n][i] = 0;
#endif
            }
          }
        }
      }
      if (masked) {  // apart, so that other tiles pass it by
        UNROLL for (int m = 0; m < M; ++m) {
          UNROLL for (int n = 0; n < N; ++n) {
            UNROLL for (int i = 0; i < 4; ++i) {
              if (my_first + m * 16 + row_in_tile(i) > from + n * 8 + column_in_tile(i)) p[m][n][i] = 0;
            }
          }
        }
      }
      if (!kLate) start_weights<kColumns>(grad_value, p, moved<kColumns>(weighed_grad, stage, part));
      finish_products<kLate ? 0 : 1>(ds);
      UNROLL for (int n = 0; n < N; ++n) {
        UNROLL for (int j = 0; j < kBeside; ++j) {
          const f32 sum = sums[row + n * 8 + column_in_tile(j)];
          UNROLL for (int m = 0; m < M; ++m) {
            UNROLL for (int i = j; i < 4; i += kBeside) ds[m][n][i] = p[m][n][i] * (ds[m][n][i] - sum);
          }
        }
      }
      if (kLate) start_weights<kColumns>(grad_value, p, moved<kColumns>(weighed_grad, stage, part));
      start_weights<kColumns>(grad_key, ds, moved<kColumns>(weighed, stage, part));
      finish_products<0>(grad_value);
      finish_products<0>(grad_key);
    }
  }
  __syncthreads();
  UNROLL for (int m = 0; m < M; ++m) {
    UNROLL for (int d = 0; d < kChunks; ++d) {
      UNROLL for (int i = 0; i < 4; ++i) grad_key[m][d][i] *= static_cast<f32>(a.scale);
    }
  }
  store_rows(key_tile, my_row, grad_key, a.grad_key, batch(a.grad_key), my_first, keys);
  store_rows(value_tile, my_row, grad_value, a.grad_value, batch(a.grad_value), my_first, keys);
}
