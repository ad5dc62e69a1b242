#include "smolder/jit/cuda/native/convolution.h"

#include <algorithm>

#include "smolder/ir/attrs.h"
#include "smolder/jit/cuda/device/convolution.h"
#include "smolder/jit/cuda/native/copy.h"
#include "smolder/jit/cuda/native/device.h"

namespace smolder::jit::cuda {

namespace {

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
                                flag("kInput", to_input) + flag("kWeight", !forward && !to_input) + kConvolution;
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
    // The left matrix is the filters; where their gradient is computed, it is the gradient of the output.
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
