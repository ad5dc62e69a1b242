//! The program names Element and Sum, of as many bits and unsigned. A block has a square of the result, whose operands
//! it keeps some depth of; a thread has 4 by 4 elements, 16 apart.
//@ kProduct
constexpr int kSide = 64, kDepth = 16, kEach = 4, kApart = kSide / kEach;
struct ProductArguments {
  const Element* a;
  const Element* b;
  Element* c;
  i64 batch, m, n, k, a_row, a_col, b_row, b_col, c_row, a_batch, b_batch, c_batch;
};
KERNEL(multiply, ProductArguments) {
  __shared__ Sum rows[kDepth][kSide + 1], columns[kDepth][kSide + 1];
  u64 rest = blockIdx.x;
  const i64 column = take_digit(rest, static_cast<u64>((a.n + kSide - 1) / kSide)) * kSide;
  const i64 row = take_digit(rest, static_cast<u64>((a.m + kSide - 1) / kSide)) * kSide;
  const i64 batch = static_cast<i64>(rest);
  const Element* left = a.a + batch * a.a_batch;
  const Element* right = a.b + batch * a.b_batch;
  const int x = threadIdx.x % kApart, y = threadIdx.x / kApart;
  Sum sums[kEach][kEach] = {};
  for (i64 first = 0; first < a.k; first += kDepth) {
    __syncthreads();
    for (int i = threadIdx.x; i < kSide * kDepth; i += blockDim.x) {
      // Neighbouring threads read what lies side by side.
      const bool across = a.a_col == 1, along = a.b_row == 1;
      const int r = across ? i / kDepth : i % kSide, p = across ? i % kDepth : i / kSide;
      const int c = along ? i / kDepth : i % kSide, q = along ? i % kDepth : i / kSide;
      const bool has_left = row + r < a.m && first + p < a.k, has_right = column + c < a.n && first + q < a.k;
      rows[p][r] = has_left ? static_cast<Sum>(left[(row + r) * a.a_row + (first + p) * a.a_col]) : 0;
      columns[q][c] = has_right ? static_cast<Sum>(right[(first + q) * a.b_row + (column + c) * a.b_col]) : 0;
    }
    __syncthreads();
#pragma unroll
    for (int p = 0; p < kDepth; ++p) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
          const Sum product = rows[p][y + i * kApart] * columns[p][x + j * kApart];
          if constexpr (Is<Element>::kBool) sums[i][j] |= product;
          else sums[i][j] += product;
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const i64 r = row + y + i * kApart, c = column + x + j * kApart;
      if (r < a.m && c < a.n) a.c[batch * a.c_batch + r * a.c_row + c] = static_cast<Element>(sums[i][j]);
    }
  }
}
