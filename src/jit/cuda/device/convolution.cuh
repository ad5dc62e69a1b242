//! The program names Element, Sum and what it computes: kForward, kInput or kWeight. Each is a product for each group,
//!   forward  [filters, channels x kernel]   x [channels x kernel, images x positions of the output]
//!   input    [channels, filters x kernel]   x [filters x kernel, images x positions of the input]
//!   weight   [filters, images x positions]  x [images x positions of the output, channels x kernel]
//! of which a block has a square of the result. What is fixed of a column of the right matrix a thread finds once.
//@ kConvolution
constexpr int kSide = 64, kDepth = 16, kEach = 4, kApart = kSide / kEach, kThreads = 256;
struct ConvArguments {
  const Element* left;
  const Element* right;
  Element* out;
  Sum* partial;  // [split, group, m, n]; null where one block has all of a sum
  i64 m, n, k, groups, splits, split_length;
  i64 channels, height, width, filters, kernel_h, kernel_w, out_h, out_w;  // channels and filters of a group
  i64 stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
};
struct Column {
  i64 part, y, x;  // the image, or the channel
};
DEVICE f32 multiply_add(f32 x, f32 y, f32 z) { return __fmaf_rn(x, y, z); }
DEVICE f64 multiply_add(f64 x, f64 y, f64 z) { return __fma_rn(x, y, z); }

DEVICE Column column_of(const ConvArguments& a, u64 n) {
  Column c;
  if (kForward) {
    c.x = take_digit(n, static_cast<u64>(a.out_w)) * a.stride_w - a.pad_w;
    c.y = take_digit(n, static_cast<u64>(a.out_h)) * a.stride_h - a.pad_h;
  } else if (kInput) {
    c.x = take_digit(n, static_cast<u64>(a.width)) + a.pad_w;
    c.y = take_digit(n, static_cast<u64>(a.height)) + a.pad_h;
  } else {
    c.x = take_digit(n, static_cast<u64>(a.kernel_w)) * a.dilation_w - a.pad_w;
    c.y = take_digit(n, static_cast<u64>(a.kernel_h)) * a.dilation_h - a.pad_h;
  }
  c.part = static_cast<i64>(n);
  return c;
}
DEVICE Element pixel(const ConvArguments& a, i64 image, i64 group, i64 channel, i64 y, i64 x) {
  if (y < 0 || y >= a.height || x < 0 || x >= a.width) return Element();
  return a.right[(((image * a.groups + group) * a.channels + channel) * a.height + y) * a.width + x];
}
DEVICE Element right_at(const ConvArguments& a, i64 group, const Column& c, u64 k) {
  if (kWeight) {
    const i64 x = take_digit(k, static_cast<u64>(a.out_w)), y = take_digit(k, static_cast<u64>(a.out_h));
    return pixel(a, static_cast<i64>(k), group, c.part, y * a.stride_h + c.y, x * a.stride_w + c.x);
  }
  const i64 kx = take_digit(k, static_cast<u64>(a.kernel_w)) * a.dilation_w;
  const i64 ky = take_digit(k, static_cast<u64>(a.kernel_h)) * a.dilation_h;
  if (kForward) return pixel(a, c.part, group, static_cast<i64>(k), c.y + ky, c.x + kx);
  i64 y = c.y - ky, x = c.x - kx;
  if (y < 0 || x < 0 || y % a.stride_h != 0 || x % a.stride_w != 0) return Element();
  y /= a.stride_h;
  x /= a.stride_w;
  if (y >= a.out_h || x >= a.out_w) return Element();
  return a.right[(((c.part * a.groups + group) * a.filters + static_cast<i64>(k)) * a.out_h + y) * a.out_w + x];
}
DEVICE Element left_at(const ConvArguments& a, i64 group, i64 m, u64 k) {
  if (kForward) return a.left[(group * a.m + m) * a.k + static_cast<i64>(k)];
  const i64 inner = kInput ? a.kernel_h * a.kernel_w : a.out_h * a.out_w;
  const i64 rest = take_digit(k, static_cast<u64>(inner)), outer = static_cast<i64>(k);  // a filter, or an image
  if (kInput) return a.left[((group * a.filters + outer) * a.channels + m) * inner + rest];
  return a.left[((outer * a.groups + group) * a.filters + m) * inner + rest];
}
DEVICE Element& out_at(const ConvArguments& a, i64 group, i64 m, u64 n) {
  if (kWeight) return a.out[(group * a.m + m) * a.n + static_cast<i64>(n)];
  const i64 inner = kForward ? a.out_h * a.out_w : a.height * a.width;
  const i64 rest = take_digit(n, static_cast<u64>(inner));
  return a.out[((static_cast<i64>(n) * a.groups + group) * a.m + m) * inner + rest];
}

KERNEL(convolve, ConvArguments) {
  __shared__ Sum rows[kDepth][kSide + 1], columns[kDepth][kSide];
  u64 rest = blockIdx.x;
  const i64 first_n = take_digit(rest, static_cast<u64>((a.n + kSide - 1) / kSide)) * kSide;
  const i64 first_m = take_digit(rest, static_cast<u64>((a.m + kSide - 1) / kSide)) * kSide;
  const i64 group = take_digit(rest, static_cast<u64>(a.groups)), split = static_cast<i64>(rest);
  const i64 begin = split * a.split_length, end = smaller(begin + a.split_length, a.k);
  const int n = threadIdx.x % kSide, m = threadIdx.x / kDepth, deep = threadIdx.x % kDepth;
  const bool has_column = first_n + n < a.n;
  const Column column = column_of(a, static_cast<u64>(has_column ? first_n + n : 0));
  const int x = threadIdx.x % kApart, y = threadIdx.x / kApart;
  Sum sums[kEach][kEach] = {};
  for (i64 first = begin; first < end; first += kDepth) {
    Element left[kEach], right[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const i64 row = first_m + m + i * (kThreads / kDepth), k = first + threadIdx.x / kSide + i * (kThreads / kSide);
      left[i] = row < a.m && first + deep < end ? left_at(a, group, row, static_cast<u64>(first + deep)) : Element();
      right[i] = has_column && k < end ? right_at(a, group, column, static_cast<u64>(k)) : Element();
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      rows[deep][m + i * (kThreads / kDepth)] = static_cast<Sum>(widen(left[i]));
      columns[threadIdx.x / kSide + i * (kThreads / kSide)][n] = static_cast<Sum>(widen(right[i]));
    }
    __syncthreads();
#pragma unroll
    for (int p = 0; p < kDepth; ++p) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
          sums[i][j] = multiply_add(rows[p][y + i * kApart], columns[p][x + j * kApart], sums[i][j]);
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const i64 row = first_m + y + i * kApart, at = first_n + x + j * kApart;
      if (row >= a.m || at >= a.n) continue;
      if (a.partial) {
        a.partial[((split * a.groups + group) * a.m + row) * a.n + at] = sums[i][j];
      } else {
        out_at(a, group, row, static_cast<u64>(at)) = Narrow<Element>::of(sums[i][j]);
      }
    }
  }
}
// The gradient of the weight: its elements lie as its sums do.
KERNEL(add_splits, ConvArguments) {
  const i64 i = thread_number(), all = a.groups * a.m * a.n;
  if (i >= all) return;
  Sum sum = 0;
  for (i64 split = 0; split < a.splits; ++split) sum += a.partial[split * all + i];
  a.out[i] = Narrow<Element>::of(sum);
}
