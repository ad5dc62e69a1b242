#include "smolder/jit/cuda/fourier.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "smolder/core/error.h"
#include "smolder/eager/cuda/cufft.h"
#include "smolder/ir/attrs.h"
#include "smolder/jit/cuda/native/copy.h"

namespace smolder::jit::cuda {
namespace {

using eager::cuda::FftDirection;
using eager::cuda::FftPlan;
using eager::cuda::FftProblem;
using eager::cuda::FftType;
using ir::Op;

/// Calls of a plan that one transform may be, where its axis lies between others.
constexpr int64_t kMostPlanRuns = 16;
/// The alignment that cuFFT asks of its numbers, in bytes.
constexpr uintptr_t kAlignment = 16;

LibraryView permuted(const LibraryView& v, const Dims& order) {
  LibraryView out = v;
  for (int i = 0; i < order.size(); ++i) {
    out.shape[i] = v.shape[static_cast<int>(order[i])];
    out.strides[i] = v.strides[static_cast<int>(order[i])];
  }
  return out;
}

/// The operand of a transform: numbers, real ones or pairs, along axes.
struct TransformLayout {
  Op op;
  Dims axes;
  bool forward;
  Dims in, out;                 ///< shapes of numbers
  Dims order;                   ///< of axes: those that are transformed last
  bool in_place_as_is = false;  ///< one axis that is transformed where it lies

  TransformLayout(Op o, const LibraryView& x, const LibraryView& y, const std::vector<int64_t>& attrs)
      : op(o), in(x.shape), out(y.shape) {
    ir::AttrReader words(attrs);
    axes = words.integers();
    SMOLDER_INVARIANT(words.integer() == 0);
    if (op == Op::kFftC2r) words.size();
    forward = words.boolean();
    if (op != Op::kFftR2c) in.pop_back();
    if (op != Op::kFftC2r) out.pop_back();
    SMOLDER_INVARIANT(axes.size() <= (op == Op::kFftC2r ? 1 : 3));
    std::sort(axes.begin(), op == Op::kFftC2c ? axes.end() : axes.end() - 1);
    for (int a = 0; a < in.size(); ++a) {
      if (std::ranges::find(axes, a) == axes.end()) order.push_back(a);
    }
    for (const int64_t a : axes) order.push_back(a);
    in_place_as_is = op == Op::kFftC2c && axes.size() == 1 && inner() > 1 && outer() <= kMostPlanRuns;
  }

  int axis() const { return static_cast<int>(axes.back()); }
  int64_t inner() const {
    int64_t n = 1;
    for (int a = axis() + 1; a < in.size(); ++a) n *= in[a];
    return n;
  }
  int64_t outer() const {
    int64_t n = 1;
    for (int a = 0; a < axis(); ++a) n *= in[a];
    return n;
  }

  Dims order_of(bool pairs) const {
    Dims all;
    for (int a = 0; a < in.size(); ++a) all.push_back(in_place_as_is ? a : order[a]);
    if (pairs) all.push_back(in.size());
    return all;
  }

  FftProblem problem(DType dtype) const {
    const bool wide = dtype == DType::kFloat64;
    const FftType real = wide ? FftType::kReal64 : FftType::kReal32;
    const FftType complex = wide ? FftType::kComplex64 : FftType::kComplex32;
    FftProblem p{{}, {op == Op::kFftR2c ? real : complex, {}, 1, 1}, {op == Op::kFftC2r ? real : complex, {}, 1, 1}, 1};
    for (const int64_t a : axes) {
      const auto axis = static_cast<int>(a);
      p.in.shape.push_back(in[axis]);
      p.out.shape.push_back(out[axis]);
      p.lengths.push_back(std::max(in[axis], out[axis]));
    }
    if (in_place_as_is) {
      p.in.step = p.out.step = p.rows = inner();
      return p;
    }
    p.in.row = numel(p.in.shape);
    p.out.row = numel(p.out.shape);
    p.rows = numel(in) / p.in.row;
    return p;
  }
};

class TransformCall final : public BoundLibrary {
 public:
  TransformCall(int device, const TransformLayout& layout, const LibraryView& in, const LibraryView& out)
      : device_(NativeDevice::of(device)),
        layout_(layout),
        in_(device_, permuted(in, layout.order_of(layout.op != Op::kFftR2c))),
        out_(device_, permuted(out, layout.order_of(layout.op != Op::kFftC2r))),
        plan_(FftPlan::get(layout.problem(in.dtype), device)) {}

  bool only_queues() const override { return true; }
  bool run(std::span<void* const> addresses) const override {
    BufferRef in_holder, out_holder, aligned_in, aligned_out;
    auto* in = static_cast<char*>(const_cast<void*>(in_.at(addresses[0], in_holder)));
    auto* out = static_cast<char*>(out_.at(addresses[1], out_holder));
    // cuFFT overwrites what it makes real numbers of.
    if (!is_aligned(in) || (layout_.op == Op::kFftC2r && !in_holder)) in = copy_of(in, aligned_in);
    char* const to = is_aligned(out) ? out : static_cast<char*>(room(out_.view(), aligned_out));
    const int64_t calls = layout_.in_place_as_is ? layout_.outer() : 1;
    const int64_t step = bytes_of(in_.view()) / calls;
    for (int64_t i = 0; i < calls; ++i) {
      plan_->run(in + i * step, to + i * step, layout_.forward ? FftDirection::kForward : FftDirection::kInverse);
    }
    if (to != out) device_.copy(out, to, bytes_of(out_.view()));
    out_.finish(addresses[1], out_holder);
    return true;
  }
  std::string describe() const override {
    std::ostringstream text;
    text << ir::name(layout_.op) << " of " << layout_.in << " along " << layout_.axes << " by cuFFT";
    return text.str();
  }

 private:
  static bool is_aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % kAlignment == 0; }
  static int64_t bytes_of(const LibraryView& v) { return numel(v.shape) * static_cast<int64_t>(itemsize(v.dtype)); }
  void* room(const LibraryView& v, BufferRef& holder) const {
    holder = device_.allocate(bytes_of(v));
    return holder->data();
  }
  char* copy_of(const char* in, BufferRef& holder) const {
    void* const copy = room(in_.view(), holder);
    device_.copy(copy, in, bytes_of(in_.view()));
    return static_cast<char*>(copy);
  }

  NativeDevice& device_;
  const TransformLayout layout_;
  const DenseOperand in_;
  const DenseResult out_;
  const std::shared_ptr<const FftPlan> plan_;
};

/// A transform of no numbers.
class Nothing final : public BoundLibrary {
 public:
  explicit Nothing(Op op) : op_(op) {}
  bool only_queues() const override { return true; }
  bool run(std::span<void* const>) const override { return true; }
  std::string describe() const override { return std::string(ir::name(op_)) + " of nothing"; }

 private:
  Op op_;
};

}  // namespace

bool is_transform(Op op) { return op == Op::kFftC2c || op == Op::kFftR2c || op == Op::kFftC2r; }

std::unique_ptr<BoundLibrary> bind_transform(int device, Op op, const LibraryView& in, const LibraryView& out,
                                             const std::vector<int64_t>& attrs) {
  if (numel(out.shape) == 0) return std::make_unique<Nothing>(op);
  return std::make_unique<TransformCall>(device, TransformLayout(op, in, out, attrs), in, out);
}

}  // namespace smolder::jit::cuda
