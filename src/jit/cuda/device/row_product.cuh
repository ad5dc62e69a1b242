//! Products of few rows by a matrix, which take as long as the matrix takes to be read. The program names Element,
//! Result, Sum and kRows, as many rows as there are or more. An element's products are added in 128 parts, part p those
//! of chunks p, p + 128, ... of k in order, and the parts as a tree: its bits follow from k, however the operands lie.
//@ kRowProduct
constexpr int kChunk = 8, kParts = 128, kWarp = 32;
enum { kRelu = 1, kWhole = 2 };
struct RowProductArguments {
  const Element* a;
  const Element* b;
  const Result* bias;  // null: there is none
  Result* c;
  i64 m, n, k, a_row, a_col, b_row, b_col, c_row, c_col, flags;
};
DEVICE Sum multiply_add(Sum x, Sum y, Sum z) { return __fmaf_rn(x, y, z); }
// What is fetched so is read where memory is one, so that what the kernel before writes is seen: it may yet run.
DEVICE void fetch_ahead(const Element* p) {
#if __CUDA_ARCH__ >= 900
  asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
#endif
}
DEVICE void finish(const RowProductArguments& a, i64 row, i64 column, Sum sum) {
  if (row >= a.m || column >= a.n) return;
  if (a.bias) sum += static_cast<Sum>(widen(a.bias[column]));
  a.c[row * a.c_row + column * a.c_col] = Narrow<Result>::of(a.flags & kRelu && sum < 0 ? Sum(0) : sum);
}

// A warp has a column of b, and a thread four parts of its products. Rows of a and columns of b are whole chunks that
// lie side by side.
BOUNDED_KERNEL(multiply_lines, RowProductArguments, 128, 4) {
  constexpr int kEach = kParts / kWarp, kAhead = 16 / sizeof(Element), kTurn = kChunk * kWarp;
  constexpr int kLine = 128 / sizeof(Element);  // that memory gives as one
  const int lane = threadIdx.x % kWarp, k = static_cast<int>(a.k);
  const i64 column = thread_number() / kWarp;
  if (column >= a.n) return;
  const Element* const line = a.b + column * a.b_col;
  for (int i = lane * kLine; i < k; i += kWarp * kLine) fetch_ahead(line + i);
  wait_for_kernel_before();
  let_kernel_after_start();  // of however many blocks this is: the next one may be fetching ahead, too
  Sum sums[kRows][kEach] = {};
#pragma unroll 1
  for (int first = lane * kChunk; first < k; first += kAhead * kTurn) {
    Pack<Element, kChunk> chunks[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      chunks[u] = Pack<Element, kChunk>();
      if (first + u * kTurn < k) load_whole(chunks[u], line + first + u * kTurn);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= a.m) break;
      const Element* const row = a.a + r * a.a_row + first;
      Pack<Element, kChunk> others[kAhead];
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        others[u] = Pack<Element, kChunk>();
        if (first + u * kTurn < k) load_whole(others[u], row + u * kTurn);
      }
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
#pragma unroll
        for (int e = 0; e < kChunk; ++e) {
          const Sum x = static_cast<Sum>(widen(others[u].x[e])), y = static_cast<Sum>(widen(chunks[u].x[e]));
          sums[r][u % kEach] = multiply_add(x, y, sums[r][u % kEach]);
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    Sum sum = (sums[r][0] + sums[r][2]) + (sums[r][1] + sums[r][3]);
#pragma unroll
    for (int apart = kWarp / 2; apart > 0; apart /= 2) sum += from_lane(sum, lane ^ apart);
    if (lane == r) finish(a, r, column, sum);
  }
}

// Adds up what the parts have put in memory, `kPart` sums each, as a tree: the sums of part 0 are those of all.
template <int kPart> DEVICE void add_parts(Sum* memory) {
#pragma unroll 1
  for (int parts = kParts / 2; parts > 0; parts /= 2) {
    __syncthreads();
    for (int i = threadIdx.x; i < parts * kPart; i += blockDim.x) memory[i] += memory[i + parts * kPart];
  }
  __syncthreads();
}

// Operands lie in any way. A block has columns of b of 64 bytes a row, a thread a part of the products of a quarter of
// them; where kWhole is set, these lie side by side.
BOUNDED_KERNEL(multiply_columns, RowProductArguments, 512, 1) {
  constexpr int kEach = 16 / sizeof(Element), kColumns = 4 * kEach, kPart = kRows * kColumns;
  Sum* const memory = reinterpret_cast<Sum*>(shared);
  const int part = threadIdx.x / (kColumns / kEach), in_block = threadIdx.x % (kColumns / kEach) * kEach;
  const i64 column = static_cast<i64>(blockIdx.x) * kColumns + in_block;
  if (column < a.n) {
    for (i64 first = part * kChunk; first < a.k; first += kChunk * kParts) {
      for (int e = 0; e < kChunk && first + e < a.k; ++e) fetch_ahead(a.b + (first + e) * a.b_row + column * a.b_col);
    }
  }
  wait_for_kernel_before();
  let_kernel_after_start();  // of however many blocks this is: the next one may be fetching ahead, too
  Sum sums[kRows][kEach] = {};
#pragma unroll 2
  for (i64 first = part * kChunk; first < a.k; first += kChunk * kParts) {
    Pack<Element, kEach> lines[kChunk];
#pragma unroll
    for (int e = 0; e < kChunk; ++e) {
      lines[e] = Pack<Element, kEach>();
      if (first + e >= a.k) continue;
      const Element* const line = a.b + (first + e) * a.b_row + column * a.b_col;
      if (a.flags & kWhole) {
        if (column < a.n) load_whole(lines[e], line);
      } else {
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
          if (column + j < a.n) lines[e].x[j] = line[j * a.b_col];
        }
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= a.m) break;
      Sum row[kChunk];
#pragma unroll
      for (int e = 0; e < kChunk; ++e) {
        row[e] = first + e < a.k ? static_cast<Sum>(widen(a.a[r * a.a_row + (first + e) * a.a_col])) : Sum(0);
      }
#pragma unroll
      for (int e = 0; e < kChunk; ++e) {
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
          sums[r][j] = multiply_add(row[e], static_cast<Sum>(widen(lines[e].x[j])), sums[r][j]);
        }
      }
    }
  }
  Sum* const of_part = memory + part * kPart + in_block;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) of_part[r * kColumns + j] = sums[r][j];
  }
  add_parts<kPart>(memory);
  for (int i = threadIdx.x; i < kPart; i += blockDim.x) {
    finish(a, i / kColumns, static_cast<i64>(blockIdx.x) * kColumns + i % kColumns, memory[i]);
  }
}
