//! The program names Element, Result and Sum, and what a tile is (see product_tiles.def). A block has a tile of the
//! result and goes through its depth in stages: what the next one needs is on its way to registers while this one is
//! multiplied from shared memory. Team t of the block's threads adds the products at t, t + kTeams, ... in order, and
//! teams are added in order, so the bits of an element follow from k and kTeams, however the operands lie.
//@ kFloatProduct
constexpr int kTilesM = kM / kEachM, kTilesN = kN / kEachN, kTeam = kTilesM * kTilesN, kThreads = kTeam * kTeams;
// So that neighbours' stores are in different banks, and lines start where they are read whole.
DEVICE constexpr int pitch(int lines, int each) { return lines + (lines == 8 && each <= 2 ? 2 : 4); }
constexpr int kPitchA = pitch(kM, kEachM), kPitchB = pitch(kN, kEachN);
constexpr int kTurn = kUnroll * kTeams;  // the depth that the loop takes at once
enum { kWholeC = 1, kRelu = 2 };
struct ProductArguments {
  const Element* a;
  const Element* b;
  const Result* bias;  // null: there is none
  Result* c;
  i64 m, n, k, a_row, a_col, b_row, b_col, c_row, batch, inner;
  i64 a_outer, a_inner, b_outer, b_inner, c_outer, c_inner, flags;
};
DEVICE f32 multiply_add(f32 x, f32 y, f32 z) { return __fmaf_rn(x, y, z); }
DEVICE f64 multiply_add(f64 x, f64 y, f64 z) { return __fma_rn(x, y, z); }

// The part of an operand that a stage needs: lines, which are rows of a or columns of b, of which a thread fetches some
// chunks. They are contiguous across lines (in the direction of k) or along them, if they are whole, which is that
// chunks are.
template <int kLines, int kPitch, bool kIsAcross, bool kIsWhole> struct Part {
  static constexpr int kChunks = kLines * kDepth / 4, kEach = (kChunks + kThreads - 1) / kThreads;
  static constexpr int kPerLine = kLines / 4;
  // Across lines, neighbours take so many chunks of a line, then the next line.
  static constexpr int kWide = kLines >= 16 ? 2 : 32 / kLines < kDepth / 4 ? 32 / kLines : kDepth / 4;
  static constexpr int kStep = kThreads / kWide;
  Pack<Element, 4> chunks[kEach];
  const Element* from;
  int line, deep;  // strides
  int lines;       // that there are

  // Where a thread's first chunk is, and how far from there the others are: numbers of the program.
  static __forceinline__ int first_line() {
    if (!kIsAcross) return threadIdx.x % kPerLine * 4;
    return kStep >= kLines ? threadIdx.x / kWide % kLines : threadIdx.x / kWide;
  }
  static __forceinline__ int first_depth() {
    if (!kIsAcross) return threadIdx.x / kPerLine;
    return (threadIdx.x % kWide + (kStep >= kLines ? threadIdx.x / (kWide * kLines) * kWide : 0)) * 4;
  }
  static constexpr int kRounds = kLines / (kStep < kLines ? kStep : kLines);
  static constexpr int line_of(int e) { return kIsAcross ? e % kRounds * kStep : 0; }
  static constexpr int depth_of(int e) {
    if (!kIsAcross) return e * (kThreads / kPerLine);
    return kStep >= kLines ? e * (kStep / kLines * kWide * 4) : e / kRounds * (kWide * 4);
  }
  static __forceinline__ bool is_chunk(int e) {
    return (e + 1) * kThreads <= kChunks || threadIdx.x + e * kThreads < kChunks;
  }
  // Fetches what comes next, of which there is as much as `left`.
  __forceinline__ void load(int left) {
    if (!kIsWhole) return;
    const int l = first_line(), d = first_depth();
    const Element* const first = from + (kIsAcross ? l * line + d : l + d * deep);
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      chunks[e] = Pack<Element, 4>();
      if (is_chunk(e) && l + line_of(e) < lines && d + depth_of(e) < left) {
        load_whole(chunks[e], first + (kIsAcross ? line_of(e) * line + depth_of(e) : depth_of(e) * deep));
      }
    }
    from += static_cast<i64>(kDepth) * deep;
  }
  __forceinline__ void store_chunks(Sum* to, int end) const {
    const int d = first_depth();
    Sum* const first = to + (d * kPitch + first_line());
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      if (!is_chunk(e) || (kDepth > kTurn && d + depth_of(e) >= end)) continue;
      Sum* const at = first + (depth_of(e) * kPitch + line_of(e));
      Pack<Sum, 4> sums;
#pragma unroll
      for (int j = 0; j < 4; ++j) sums.x[j] = static_cast<Sum>(widen(chunks[e].x[j]));
      if (kIsAcross || kPitch % 4 != 0) {
#pragma unroll
        for (int j = 0; j < 4; ++j) at[j * (kIsAcross ? kPitch : 1)] = sums.x[j];
      } else {
        store_whole(at, sums);
      }
    }
  }
  // To shared memory, zeros where there is nothing, up to `end`; what was not fetched in chunks element by element.
  __forceinline__ void store(Sum* to, int left, int end) {
    if (kIsWhole) return store_chunks(to, end);
#pragma unroll 4
    for (int i = threadIdx.x; i < kLines * end; i += kThreads) {
      const int l = kIsAcross ? i / 4 % kLines : i % kLines, d = kIsAcross ? i % 4 + i / (4 * kLines) * 4 : i / kLines;
      to[d * kPitch + l] = l < lines && d < left ? static_cast<Sum>(widen(from[l * line + d * deep])) : Sum(0);
    }
    from += static_cast<i64>(kDepth) * deep;
  }
};
// The elements of a line that a thread has: pieces of up to 4, apart by as many as all threads have.
template <int kEach, int kTiles> DEVICE int place(int tile, int i) {
  constexpr int kPiece = kEach < 4 ? kEach : 4;
  return i / kPiece * (kPiece * kTiles) + tile * kPiece + i % kPiece;
}
template <int kEach, int kTiles> DEVICE void fetch_line(Sum (&to)[kEach], const Sum* from) {
  constexpr int kPiece = kEach < 4 ? kEach : 4;
#pragma unroll
  for (int i = 0; i < kEach; i += kPiece) {
    Pack<Sum, kPiece> piece;
    load_whole(piece, from + i * kTiles);
#pragma unroll
    for (int j = 0; j < kPiece; ++j) to[i + j] = piece.x[j];
  }
}
// Neighbouring elements of a row.
template <int kCount>
DEVICE void finish(const ProductArguments& a, Result* c, int row, int column, Sum (&sums)[kCount]) {
  const int m = static_cast<int>(a.m), n = static_cast<int>(a.n), flags = static_cast<int>(a.flags);
  if (row >= m || column >= n) return;
  Pack<Result, kCount> piece;
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    if (a.bias && column + j < n) sums[j] += static_cast<Sum>(widen(a.bias[column + j]));
    piece.x[j] = Narrow<Result>::of(flags & kRelu && sums[j] < 0 ? Sum(0) : sums[j]);
  }
  Result* const to = c + static_cast<i64>(row) * a.c_row + column;
  if (kCount == 1 || flags & kWholeC) return store_whole(to, piece);
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    if (column + j < n) to[j] = piece.x[j];
  }
}

BOUNDED_KERNEL(multiply, ProductArguments, kThreads, kBlocks) {
  constexpr int kStage = kDepth * (kPitchA + kPitchB);
  Sum* const memory = reinterpret_cast<Sum*>(shared);
  const int m = static_cast<int>(a.m), n = static_cast<int>(a.n);
  u32 rest = blockIdx.x;
  const u32 columns_of_blocks = static_cast<u32>(n + kN - 1) / kN, rows_of_blocks = static_cast<u32>(m + kM - 1) / kM;
  const int first_n = static_cast<int>(rest % columns_of_blocks) * kN;
  rest /= columns_of_blocks;
  u32 outer = 0, inner = 0;
  if (a.batch > 1) {
    outer = rest / rows_of_blocks;
    rest %= rows_of_blocks;
    inner = outer % static_cast<u32>(a.inner);
    outer /= static_cast<u32>(a.inner);
  }
  const int first_m = static_cast<int>(rest) * kM;
  Part<kM, kPitchA, kAcrossA, kWholeA> left;
  Part<kN, kPitchB, kAcrossB, kWholeB> right;
  left.line = static_cast<int>(a.a_row), left.deep = static_cast<int>(a.a_col), left.lines = m - first_m;
  left.from = a.a + outer * a.a_outer + inner * a.a_inner + static_cast<i64>(first_m) * a.a_row;
  right.line = static_cast<int>(a.b_col), right.deep = static_cast<int>(a.b_row), right.lines = n - first_n;
  right.from = a.b + outer * a.b_outer + inner * a.b_inner + static_cast<i64>(first_n) * a.b_col;
  const int team = threadIdx.x / kTeam, x = threadIdx.x % kTilesN, y = threadIdx.x % kTeam / kTilesN;
  Sum sums[kEachM][kEachN] = {};
  wait_for_kernel_before();
  left.load(static_cast<int>(a.k));
  right.load(static_cast<int>(a.k));
  Sum* stage = memory;
#pragma unroll 1
  for (int depth = static_cast<int>(a.k); depth > 0; depth -= kDepth) {
    const int turns = ((depth < kDepth ? depth : kDepth) + kTurn - 1) / kTurn;
    if (kStages == 1 && depth < static_cast<int>(a.k)) __syncthreads();
    left.store(stage, depth, turns * kTurn);
    right.store(stage + kDepth * kPitchA, depth, turns * kTurn);
    __syncthreads();
    if (!kOnce && depth > kDepth) {
      left.load(depth - kDepth);
      right.load(depth - kDepth);
    }
    const Sum* rows = stage + team * kPitchA + place<kEachM, kTilesM>(y, 0);
    const Sum* columns = stage + kDepth * kPitchA + team * kPitchB + place<kEachN, kTilesN>(x, 0);
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
      for (int p = 0; p < kUnroll; ++p) {
        Sum l[kEachM], r[kEachN];
        fetch_line<kEachM, kTilesM>(l, rows + p * (kTeams * kPitchA));
        fetch_line<kEachN, kTilesN>(r, columns + p * (kTeams * kPitchB));
#pragma unroll
        for (int i = 0; i < kEachM; ++i) {
#pragma unroll
          for (int j = 0; j < kEachN; ++j) sums[i][j] = multiply_add(l[i], r[j], sums[i][j]);
        }
      }
      rows += kTurn * kPitchA;
      columns += kTurn * kPitchB;
    }
    if (kOnce) break;
    if (kStages == 2) stage = stage == memory ? memory + kStage : memory;
  }
  Result* const c = a.c + outer * a.c_outer + inner * a.c_inner;
  if constexpr (kTeams == 1) {
    constexpr int kPiece = kEachN < 4 ? kEachN : 4;
#pragma unroll
    for (int i = 0; i < kEachM; ++i) {
#pragma unroll
      for (int j = 0; j < kEachN; j += kPiece) {
        Sum piece[kPiece];
#pragma unroll
        for (int e = 0; e < kPiece; ++e) piece[e] = sums[i][j + e];
        finish(a, c, first_m + place<kEachM, kTilesM>(y, i), first_n + place<kEachN, kTilesN>(x, j), piece);
      }
    }
  } else {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kEachM; ++i) {
#pragma unroll
      for (int j = 0; j < kEachN; ++j) {
        memory[(team * kM + place<kEachM, kTilesM>(y, i)) * kN + place<kEachN, kTilesN>(x, j)] = sums[i][j];
      }
    }
    __syncthreads();
#pragma unroll 1
    for (int i = threadIdx.x; i < kM * kN; i += kThreads) {
      Sum sum[1] = {memory[i]};
#pragma unroll
      for (int t = 1; t < kTeams; ++t) sum[0] += memory[t * (kM * kN) + i];
      finish(a, c, first_m + i / kN, first_n + i % kN, sum);
    }
  }
}
