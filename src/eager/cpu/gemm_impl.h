// The functions behind gemm::Kernels, written once against `Simd<T>`. Included by one source file per
// instruction set, after that file has set its target and defined Simd<float> and Simd<double> in an
// unnamed namespace: everything here has internal linkage, so the linker cannot pick code built for a newer
// machine where an older one was meant. For the same reason headers with inline functions are included
// before the target is set, and this file includes none.
//
// Simd<T> has: V; W (elements of V); kRows, kVectors (largest tile); zero, load (from T and, for float, the
// halves), store (to the same), broadcast, fma(a, b, c) = a*b + c, add, relu (nan and -0 stay);
// copy_narrow(from, to): kRows elements, converted;
// kTurn<E>: steps of k that turn(rows, dst, pitch) handles: dst[p*pitch + i] = rows[i][p], i < W.

namespace smolder::eager::gemm {
namespace {

template <class T, int R, int N>
void tile(const Tile<T>& t) {
  using S = Simd<T>;
  using V = typename S::V;
  const T* rows[R];
  V sums[R][N];
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i) {
    rows[i] = t.x + i * t.x_row;
#pragma GCC unroll 3
    for (int j = 0; j < N; ++j) sums[i][j] = S::zero();
  }
  const T* y = t.y;
  const int64_t y_k = t.y_k, x_k = t.x_k, end = t.k * x_k;
  for (int64_t x = 0; x != end; x += x_k, y += y_k) {
    V b[N];
#pragma GCC unroll 3
    for (int j = 0; j < N; ++j) b[j] = S::load(y + j * S::W);
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) {
      const V a = S::broadcast(rows[i] + x);
#pragma GCC unroll 3
      for (int j = 0; j < N; ++j) sums[i][j] = S::fma(a, b[j], sums[i][j]);
    }
  }
  if (t.add) {
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) {
#pragma GCC unroll 3
      for (int j = 0; j < N; ++j) sums[i][j] = S::add(S::load(t.out + i * t.out_row + j * S::W), sums[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < N; ++j) S::store(t.out + i * t.out_row + j * S::W, sums[i][j]);
  }
}

template <class T, class E>
T convert_in(E v) {
  if constexpr (std::is_same_v<E, T>) {
    return v;
  } else {
    return to_float(v);
  }
}

template <class E, class T>
E convert_out(T v) {
  if constexpr (std::is_same_v<E, T>) {
    return v;
  } else if constexpr (std::is_same_v<E, BFloat16>) {
    return to_bfloat16(v);
  } else {
    return to_float16(v);
  }
}

/// Columns W at a time, the last one repeated to a whole vector: its copies are computed and dropped.
template <class T, class E>
void rows_from(const E* (&rows)[Simd<T>::W], const E* from, int64_t stride, int64_t first, int64_t count) {
#pragma GCC unroll 16
  for (int r = 0; r < Simd<T>::W; ++r) rows[r] = from + (first + r < count ? first + r : count - 1) * stride;
}

/// Bytes that a turned row is fetched ahead: each row is a stream of its own, more than the hardware follows.
constexpr int64_t kFetchAhead = 1024;

/// Rows that lie beside each other in memory: a few steps of k through all panels before the next few. A
/// long stride then costs a page a step, not a page a step and panel.
template <class T, class E>
void pack_beside(const Pack<T>& c, const E* src) {
  using S = Simd<T>;
  constexpr int64_t kSteps = 16;
  for (int64_t p0 = 0; p0 < c.k; p0 += kSteps, src += kSteps * c.step) {
    const int64_t steps = c.k - p0 < kSteps ? c.k - p0 : kSteps;
    for (int64_t q = 0; q < c.parts; ++q) {
      const Part part(c.units, c.parts, q);
      const int64_t first = part.begin * c.unit, width = part.size() * c.unit;
      const int64_t rows = c.rows - first < width ? c.rows - first : width;
      const E* from = src + first;
      T* to = c.dst + first * c.k + p0 * width;
      if (rows == S::kRows && width == S::kRows) {
        for (int64_t p = 0; p < steps; ++p) S::copy_narrow(from + p * c.step, to + p * S::kRows);
        continue;
      }
      for (int64_t p = 0; p < steps; ++p, from += c.step, to += width) {
        int64_t i = 0;
        for (; i + S::W <= rows; i += S::W) S::store(to + i, S::load(from + i));
        for (; i < rows; ++i) to[i] = convert_in<T>(from[i]);
      }
    }
  }
}

template <class T, class E>
void pack_as(const Pack<T>& c) {
  using S = Simd<T>;
  constexpr int64_t kTurn = S::template kTurn<E>;
  const E* src = static_cast<const E*>(c.src);
  if (c.row == 1) return pack_beside(c, src);
  for (int64_t q = 0; q < c.parts; ++q) {
    const Part part(c.units, c.parts, q);
    const int64_t first = part.begin * c.unit, width = part.size() * c.unit;
    const int64_t rows = c.rows - first < width ? c.rows - first : width;
    const E* from = src + first * c.row;
    T* to = c.dst + first * c.k;
    int64_t p = 0;
    if (c.step == 1 && width % S::W == 0) {
      for (; p + kTurn <= c.k; p += kTurn) {
        for (int64_t i = 0; i < width; i += S::W) {
          const E* at[S::W];
          rows_from<T>(at, from + p, c.row, i, rows);
          for (const E* row : at) __builtin_prefetch(row + kFetchAhead / sizeof(E), 0, 2);
          S::turn(at, to + p * width + i, width);
        }
      }
    }
    for (; p < c.k; ++p) {
      for (int64_t i = 0; i < rows; ++i) to[p * width + i] = convert_in<T>(from[i * c.row + p * c.step]);
    }
  }
}

template <class T, class E>
void copy_rows_as(const CopyRows<T>& c) {
  using S = Simd<T>;
  const E* from = static_cast<const E*>(c.src);
  const int64_t whole = c.step == 1 ? c.k / S::W * S::W : 0;
  T* to = c.dst;
  for (int64_t i = 0; i < c.rows; ++i, from += c.row, to += c.pitch) {
    int64_t p = 0;
    for (; p < whole; p += S::W) S::store(to + p, S::load(from + p));
    for (; p < c.k; ++p) to[p] = convert_in<T>(from[p * c.step]);
  }
}

template <class T, class E>
void finish_straight(const Finish<T>& f) {
  using S = Simd<T>;
  const E* bias = static_cast<const E*>(f.bias);
  const int64_t whole = f.cols / S::W * S::W;
  for (int64_t i = 0; i < f.rows; ++i) {
    const T* from = f.sums + i * f.sums_row;
    E* to = static_cast<E*>(f.c) + i * f.c_row;
    int64_t j = 0;
    for (; j < whole; j += S::W) {
      auto v = S::load(from + j);
      if (bias) v = S::add(v, S::load(bias + j));
      if (f.relu) v = S::relu(v);
      S::store(to + j, v);
    }
    for (; j < f.cols; ++j) {
      T v = from[j];
      if (bias) v += convert_in<T>(bias[j]);
      if (f.relu && v < 0) v = 0;
      to[j] = convert_out<E>(v);
    }
  }
}

template <class T, class E>
void finish_as(const Finish<T>& f) {
  using S = Simd<T>;
  if (!f.transposed) return finish_straight<T, E>(f);
  constexpr int64_t kTurn = S::template kTurn<T>;
  alignas(64) T turned[kTurn * S::W];
  const T* rows[S::W];
  for (int64_t i = 0; i < f.rows; i += S::W) {
    for (int64_t j = 0; j < f.cols; j += kTurn) {
      rows_from<T>(rows, f.sums + j, f.sums_row, i, f.rows);
      S::turn(rows, turned, S::W);
      Finish<T> square = f;
      square.sums = turned, square.sums_row = S::W;
      square.rows = f.cols - j < kTurn ? f.cols - j : kTurn, square.cols = f.rows - i < S::W ? f.rows - i : S::W;
      square.c = static_cast<E*>(f.c) + j * f.c_row + i;
      if (f.bias) square.bias = static_cast<const E*>(f.bias) + i;
      finish_straight<T, E>(square);
    }
  }
}

/// Y's columns are contiguous: kSteps rows of Y at a time are added to running sums that stay in L1.
template <class T, class E, int R>
void skinny_columns(const Skinny<T>& s) {
  using S = Simd<T>;
  constexpr int64_t kSteps = 8, kCols = 1024;
  alignas(64) T chain[R][kCols], edge[S::W] = {};
  for (int64_t j0 = 0; j0 < s.cols; j0 += kCols) {
    const int64_t cols = s.cols - j0 < kCols ? s.cols - j0 : kCols, whole = cols / S::W * S::W;
    for (int64_t p0 = 0; p0 < s.k; p0 += kChunk) {
      __builtin_memset(chain, 0, sizeof chain);
      const int64_t end = s.k - p0 < kChunk ? s.k : p0 + kChunk;
      for (int64_t p = p0; p < end; p += kSteps) {
        const int64_t steps = end - p < kSteps ? end - p : kSteps;
        const E* y = static_cast<const E*>(s.y) + p * s.step + j0;
        for (int i = 0; i < R; ++i) {
          const T* x = s.x + i * s.x_row + p * s.x_k;
          int64_t j = 0;
          if (steps == kSteps) {
            for (; j < whole; j += S::W) {
              auto sum = S::load(chain[i] + j);
#pragma GCC unroll 8
              for (int64_t q = 0; q < kSteps; ++q)
                sum = S::fma(S::broadcast(x + q * s.x_k), S::load(y + q * s.step + j), sum);
              S::store(chain[i] + j, sum);
            }
          }
          for (; j < cols; j += S::W) {
            const int64_t n = cols - j < S::W ? cols - j : S::W;
            auto sum = S::load(chain[i] + j);
            for (int64_t q = 0; q < steps; ++q) {
              for (int64_t e = 0; e < n; ++e) edge[e] = convert_in<T>(y[q * s.step + j + e]);
              sum = S::fma(S::broadcast(x + q * s.x_k), S::load(edge), sum);
            }
            S::store(chain[i] + j, sum);
          }
        }
      }
      for (int i = 0; i < R; ++i) {
        T* sums = s.sums + i * s.sums_row + j0;
        for (int64_t j = 0; j < cols; j += S::W) {
          const auto v = S::load(chain[i] + j);
          S::store(sums + j, p0 == 0 ? v : S::add(S::load(sums + j), v));
        }
      }
    }
  }
}

/// Y is contiguous along k: squares of Y are turned as they arrive.
template <class T, class E, int R>
void skinny_rows(const Skinny<T>& s) {
  using S = Simd<T>;
  constexpr int G = 2;  // squares side by side, so that their chains of additions overlap
  constexpr int64_t kTurn = S::template kTurn<E>;
  for (int64_t j = 0; j < s.cols; j += G * S::W) {
    const E* at[G][S::W];
    for (int g = 0; g < G; ++g) rows_from<T>(at[g], static_cast<const E*>(s.y), s.col, j + g * S::W, s.cols);
    typename S::V total[R][G] = {}, chain[R][G];
    for (int64_t p0 = 0; p0 < s.k; p0 += kChunk) {
      for (auto& row : chain) {
        for (auto& sum : row) sum = S::zero();
      }
      const int64_t end = s.k - p0 < kChunk ? s.k : p0 + kChunk;
      for (int64_t p = p0; p < end; p += kTurn) {
        const int64_t steps = end - p < kTurn ? end - p : kTurn;
        alignas(64) T square[G][kTurn * S::W];
        for (int g = 0; g < G; ++g) {
          if (steps == kTurn) {
            const E* rows[S::W];
            for (int r = 0; r < S::W; ++r) {
              rows[r] = at[g][r] + p;
              __builtin_prefetch(rows[r] + kFetchAhead / sizeof(E), 0, 2);
            }
            S::turn(rows, square[g], S::W);
          } else {
            for (int64_t q = 0; q < steps; ++q) {
              for (int r = 0; r < S::W; ++r) square[g][q * S::W + r] = convert_in<T>(at[g][r][p + q]);
            }
          }
        }
        for (int64_t q = 0; q < steps; ++q) {
          for (int i = 0; i < R; ++i) {
            const auto a = S::broadcast(s.x + i * s.x_row + (p + q) * s.x_k);
            for (int g = 0; g < G; ++g) chain[i][g] = S::fma(a, S::load(square[g] + q * S::W), chain[i][g]);
          }
        }
      }
      for (int i = 0; i < R; ++i) {
        for (int g = 0; g < G; ++g) total[i][g] = p0 == 0 ? chain[i][g] : S::add(total[i][g], chain[i][g]);
      }
    }
    for (int i = 0; i < R; ++i) {
      for (int g = 0; g < G && j + g * S::W < s.cols; ++g)
        S::store(s.sums + i * s.sums_row + j + g * S::W, total[i][g]);
    }
  }
}

template <class T, class E, int R>
void skinny_of(const Skinny<T>& s) {
  s.col == 1 ? skinny_columns<T, E, R>(s) : skinny_rows<T, E, R>(s);
}

template <class T, class E>
void skinny_as(const Skinny<T>& s) {
  switch (s.rows) {
    case 1:
      return skinny_of<T, E, 1>(s);
    case 2:
      return skinny_of<T, E, 2>(s);
    case 3:
      return skinny_of<T, E, 3>(s);
    default:
      return skinny_of<T, E, 4>(s);
  }
}

// Each takes the element type from the request.
#define SMOLDER_GEMM_ENTRY(name, Request)      \
  template <class T>                           \
  void name(const Request<T>& r) {             \
    if constexpr (std::is_same_v<T, double>) { \
      name##_as<T, double>(r);                 \
    } else {                                   \
      switch (r.dtype) {                       \
        case DType::kBFloat16:                 \
          return name##_as<T, BFloat16>(r);    \
        case DType::kFloat16:                  \
          return name##_as<T, Float16>(r);     \
        default:                               \
          return name##_as<T, float>(r);       \
      }                                        \
    }                                          \
  }
SMOLDER_GEMM_ENTRY(finish, Finish)
SMOLDER_GEMM_ENTRY(pack, Pack)
SMOLDER_GEMM_ENTRY(copy_rows, CopyRows)
SMOLDER_GEMM_ENTRY(skinny, Skinny)
#undef SMOLDER_GEMM_ENTRY

/// Copies a matrix of each of `items` items to dst[(r*cols + c)*W + item]; lanes past them are unspecified.
template <class T>
void gather_items(const T* src, int64_t batch, int64_t row, int64_t col, int64_t rows, int64_t cols, int64_t items,
                  T* dst) {
  using S = Simd<T>;
  constexpr int64_t W = S::W, kTurn = S::template kTurn<T>;
  // The longer run of neighbours is turned by vectors, where they have enough items to be worth it.
  const bool along_row = col == 1, turns = 4 * items >= W && (along_row ? cols : row == 1 ? rows : 0) >= kTurn;
  const int64_t runs = along_row ? rows : cols, run = along_row ? row : col, length = along_row ? cols : rows;
  const int64_t first = (along_row ? cols : 1) * W, pitch = (along_row ? 1 : cols) * W;
  const int64_t turned = turns ? length / kTurn * kTurn : 0, step = along_row ? col : row;
  for (int64_t r = 0; r < runs; ++r) {
    T* const to = dst + r * first;
    for (int64_t p = 0; p < turned; p += kTurn) {
      const T* from[W];
      for (int64_t i = 0; i < W; ++i) from[i] = src + (i < items ? i : items - 1) * batch + r * run + p;
      S::turn(from, to + p * pitch, pitch);
    }
    for (int64_t i = 0; i < items && turned < length; ++i) {
      const T* const from = src + i * batch + r * run;
      for (int64_t p = turned; p < length; ++p) to[p * pitch + i] = from[p * step];
    }
  }
}

template <class T>
void small(const Small<T>& s) {
  using S = Simd<T>;
  using V = typename S::V;
  constexpr int64_t W = S::W;
  static_assert(W <= kMaxWidth);
  // The memory holds for each item as much of k as fits, the sums of this chunk of k, and those of the chunks before.
  const int64_t outputs = s.m * s.n, room = (kSmallElements - 2 * outputs) / (s.m + s.n);
  alignas(64) T memory[kSmallElements * W];
  T *const chunk = memory, *const total = chunk + outputs * W, *const a = total + outputs * W,
           *const b = a + s.m * room * W;
  for (int64_t first = 0; first < s.batch; first += W) {
    const int64_t items = s.batch - first < W ? s.batch - first : W;
    for (int64_t k0 = 0; k0 < s.k;) {
      const int64_t in = k0 % kChunk, left = s.k - k0 < kChunk - in ? s.k - k0 : kChunk - in;
      const int64_t k = left < room ? left : room;
      gather_items<T>(s.a + first * s.a_batch + k0 * s.a_col, s.a_batch, s.a_row, s.a_col, s.m, k, items, a);
      gather_items<T>(s.b + first * s.b_batch + k0 * s.b_row, s.b_batch, s.b_row, s.b_col, k, s.n, items, b);
      k0 += k;
      const bool ends = k == left;
      for (int64_t i = 0; i < s.m; ++i) {
        for (int64_t j = 0; j < s.n; ++j) {
          const int64_t at = (i * s.n + j) * W;
          V sum = in == 0 ? S::zero() : S::load(chunk + at);
          for (int64_t p = 0; p < k; ++p)
            sum = S::fma(S::load(a + (i * k + p) * W), S::load(b + (p * s.n + j) * W), sum);
          if (ends) S::store(total + at, k0 <= kChunk ? sum : S::add(S::load(total + at), sum));
          if (!ends) S::store(chunk + at, sum);
        }
      }
    }
    for (int64_t item = 0; item < items; ++item) {
      T* const to = s.c + (first + item) * s.c_batch;
      const T* from = total + item;
      for (int64_t i = 0; i < s.m; ++i) {
        for (int64_t j = 0; j < s.n; ++j, from += W) to[i * s.c_row + j] = *from;
      }
    }
  }
}

template <class T, int R>
constexpr void fill_tiles(Kernels<T>& table) {
  table.tile[R - 1][0] = tile<T, R, 1>;
  if constexpr (Simd<T>::kVectors > 1) table.tile[R - 1][1] = tile<T, R, 2>;
  if constexpr (Simd<T>::kVectors > 2) table.tile[R - 1][2] = tile<T, R, 3>;
  if constexpr (R > 1) fill_tiles<T, R - 1>(table);
}

/// Constant, so that no code built for this instruction set runs where the machine lacks it.
template <class T>
constexpr Kernels<T> make_kernels(const char* isa) {
  using S = Simd<T>;
  static_assert(S::kRows <= kMaxRows && S::kVectors <= kMaxVectors && S::kRows * S::kVectors * S::W <= kMaxTile);
  Kernels<T> table{isa, S::W, S::kRows, S::kVectors, {}, finish<T>, pack<T>, copy_rows<T>, skinny<T>, small<T>};
  fill_tiles<T, S::kRows>(table);
  return table;
}

}  // namespace
}  // namespace smolder::eager::gemm
