#include "smolder/jit/cuda/convolution.h"

#include <sstream>
#include <utility>

#include "smolder/core/cuda/memory.h"
#include "smolder/core/cuda/queue.h"
#include "smolder/eager/cuda/cudnn_convolution.h"
#include "smolder/ir/attrs.h"
#include "smolder/jit/cuda/native/copy.h"

namespace smolder::jit::cuda {
namespace {

using eager::cuda::DnnConvolution;
using eager::cuda::DnnKind;
using eager::cuda::DnnPlan;
using ir::Op;

class DnnConvolutionCall final : public BoundLibrary {
 public:
  DnnConvolutionCall(int device, Op op, const std::vector<LibraryView>& inputs, const LibraryView& out,
                     const DnnConvolution& problem, std::shared_ptr<const DnnPlan> plan)
      : op_(op),
        queue_(smolder::cuda::Queue::of(device)),
        first_(NativeDevice::of(device), inputs[0]),
        second_(NativeDevice::of(device), inputs[1]),
        out_(NativeDevice::of(device), out),
        problem_(problem),
        plan_(std::move(plan)) {}

  bool only_queues() const override { return true; }
  bool run(std::span<void* const> addresses) const override {
    BufferRef holders[4];
    // cuDNN is not told that it only reads these.
    void* const first = const_cast<void*>(first_.at(addresses[0], holders[0]));
    void* const second = const_cast<void*>(second_.at(addresses[1], holders[1]));
    void* const out = out_.at(addresses[2], holders[2]);
    holders[3] = smolder::cuda::allocate_temporary(static_cast<size_t>(plan_->workspace_bytes()), queue_.device());
    void* const forward[] = {first, second, out};
    void* const to_input[] = {out, second, first};
    void* const to_weight[] = {second, out, first};
    plan_->run(op_ == Op::kConvForward         ? forward
               : op_ == Op::kConvBackwardInput ? to_input
                                               : to_weight,
               holders[3]->data(), queue_.stream().handle());
    out_.finish(addresses[2], holders[2]);
    return true;
  }
  std::string describe() const override {
    std::ostringstream text;
    text << ir::name(op_) << " of " << problem_.x << " and " << problem_.w << " by cuDNN";
    return text.str();
  }

 private:
  const Op op_;
  smolder::cuda::Queue& queue_;
  const DenseOperand first_, second_;
  const DenseResult out_;
  const DnnConvolution problem_;
  const std::shared_ptr<const DnnPlan> plan_;
};

}  // namespace

std::unique_ptr<BoundLibrary> bind_convolution(int device, Op op, const std::vector<LibraryView>& inputs,
                                               const LibraryView& out, const std::vector<int64_t>& attrs) {
  const bool forward = op == Op::kConvForward, to_input = op == Op::kConvBackwardInput;
  DnnConvolution problem;
  problem.kind = forward    ? DnnKind::kConvolutionForward
                 : to_input ? DnnKind::kConvolutionInput
                            : DnnKind::kConvolutionWeight;
  problem.dtype = out.dtype;
  problem.x = forward ? inputs[0].shape : to_input ? out.shape : inputs[1].shape;
  problem.w = forward || to_input ? inputs[1].shape : out.shape;
  problem.y = forward ? out.shape : inputs[0].shape;
  ir::AttrReader reader(attrs);
  if (!forward) reader.sizes();
  problem.stride = reader.integers(), problem.padding = reader.integers(), problem.dilation = reader.integers();
  auto plan = problem.plan(device);
  if (!plan) return nullptr;
  return std::make_unique<DnnConvolutionCall>(device, op, inputs, out, problem, std::move(plan));
}

}  // namespace smolder::jit::cuda
