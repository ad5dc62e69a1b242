#include "smolder/jit/cuda/native/convolution.h"

#include <algorithm>

#include "smolder/ir/attrs.h"
#include "smolder/jit/cuda/native/copy.h"
#include "smolder/jit/cuda/native/device.h"

namespace smolder::jit::cuda {

namespace {

// The program names Element, Sum and what it computes: kForward, kInput or kWeight. Each is a product for each group,
//   forward  [filters, channels x kernel]   x [channels x kernel, images x positions of the output]
//   input    [channels, filters x kernel]   x [filters x kernel, images x positions of the input]
//   weight   [filters, images x positions]  x [images x positions of the output, channels x kernel]
// of which a block has a square of the result. What is fixed of a column of the right matrix a thread finds once.
constexpr const char* kText = R"cuda(
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
// Of the gradient of the weight, whose elements lie as its sums do.
KERNEL(add_splits, ConvArguments) {
  const i64 i = thread_number(), all = a.groups * a.m * a.n;
  if (i >= all) return;
  Sum sum = 0;
  for (i64 split = 0; split < a.splits; ++split) sum += a.partial[split * all + i];
  a.out[i] = Narrow<Element>::of(sum);
}
)cuda";

constexpr int kThreads = 256;
constexpr int64_t kSide = 64;
/// Blocks that are enough; the sums of a weight's gradient are else cut into parts, none shorter than the second.
constexpr int64_t kManyBlocks = 512, kLeastSplit = 512;

class Convolution final : public BoundLibrary {
 public:
  Convolution(NativeDevice& device, ir::Op op, const std::vector<LibraryView>& inputs, const LibraryView& out,
              const std::vector<int64_t>& attrs)
      : device_(device), op_(op), first_(device, inputs[0]), second_(device, inputs[1]), out_(device, out) {
    const bool forward = op == ir::Op::kConvForward, to_input = op == ir::Op::kConvBackwardInput;
    const Dims& x = forward ? inputs[0].shape : to_input ? out.shape : inputs[1].shape;
    const Dims& w = op == ir::Op::kConvBackwardWeight ? out.shape : inputs[1].shape;
    const Dims& y = forward ? out.shape : inputs[0].shape;
    ir::AttrReader reader(attrs);
    if (!forward) reader.sizes();
    const Dims stride = reader.integers(), padding = reader.integers(), dilation = reader.integers();
    groups_ = reader.integer();
    const int64_t filters = w[0] / groups_, kernel = w[2] * w[3];
    m_ = to_input ? w[1] : filters;
    n_ = forward ? y[0] * y[2] * y[3] : to_input ? x[0] * x[2] * x[3] : w[1] * kernel;
    k_ = forward ? w[1] * kernel : to_input ? filters * kernel : y[0] * y[2] * y[3];
    sizes_ = words(w[1], x[2], x[3], filters, w[2], w[3], y[2], y[3], stride[0], stride[1], padding[0], padding[1],
                   dilation[0], dilation[1]);
    if (m_ * n_ * groups_ == 0) return;
    tiles_ = groups_ * ceil_div(m_, kSide) * ceil_div(n_, kSide);
    if (op == ir::Op::kConvBackwardWeight) {
      splits_ = std::clamp<int64_t>(kManyBlocks / tiles_, 1, std::max<int64_t>(1, k_ / kLeastSplit));
    }
    sum_ = out.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
    const auto flag = [](const char* name, bool value) {
      return std::string("constexpr bool ") + name + " = " + (value ? "true" : "false") + ";\n";
    };
    const std::string program = typedef_of("Element", out.dtype) + typedef_of("Sum", sum_) + flag("kForward", forward) +
                                flag("kInput", to_input) + flag("kWeight", !forward && !to_input) + kText;
    convolve_ = device.function(program, "convolve");
    add_splits_ = device.function(program, "add_splits");
  }

  bool only_queues() const override { return true; }
  bool run(std::span<void* const> addresses) const override {
    if (!convolve_) return true;
    BufferRef holders[4];
    const void* const first = first_.at(addresses[0], holders[0]);
    const void* const second = second_.at(addresses[1], holders[1]);
    void* const out = out_.at(addresses[2], holders[2]);
    // The filters, or the gradient of the output where they are what is computed, are on the left.
    const bool swaps = op_ != ir::Op::kConvBackwardWeight;
    const int64_t elements = groups_ * m_ * n_;
    if (splits_ > 1) holders[3] = device_.allocate(splits_ * elements * static_cast<int64_t>(itemsize(sum_)));
    const void* const partial = holders[3] ? holders[3]->data() : nullptr;
    Words arguments = words(swaps ? second : first, swaps ? first : second, out, partial, m_, n_, k_, groups_, splits_,
                            ceil_div(k_, splits_));
    for (const uint64_t size : sizes_.all()) arguments.add(size);
    convolve_->launch(tiles_ * splits_, kThreads, arguments);
    if (splits_ > 1) add_splits_->launch(ceil_div(elements, kThreads), kThreads, arguments);
    out_.finish(addresses[2], holders[2]);
    return true;
  }
  std::string describe() const override {
    return std::string(ir::name(op_)) + " as " + std::to_string(groups_) + " x " + std::to_string(m_) + 'x' +
           std::to_string(n_) + 'x' + std::to_string(k_);
  }

 private:
  NativeDevice& device_;
  const ir::Op op_;
  const DenseOperand first_, second_;
  const DenseResult out_;
  int64_t groups_ = 1, m_ = 0, n_ = 0, k_ = 0, tiles_ = 0, splits_ = 1;
  Words sizes_;
  DType sum_ = DType::kFloat32;
  NativeRef convolve_, add_splits_;
};

}  // namespace

bool is_convolution(ir::Op op) {
  return op == ir::Op::kConvForward || op == ir::Op::kConvBackwardInput || op == ir::Op::kConvBackwardWeight;
}

std::unique_ptr<BoundLibrary> make_convolution(NativeDevice& device, ir::Op op, const std::vector<LibraryView>& inputs,
                                               const LibraryView& out, const std::vector<int64_t>& attrs) {
  return std::make_unique<Convolution>(device, op, inputs, out, attrs);
}

}  // namespace smolder::jit::cuda
