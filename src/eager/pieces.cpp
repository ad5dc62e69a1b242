#include "smolder/eager/pieces.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "smolder/core/counters.h"
#include "smolder/core/size.h"
#include "smolder/core/thread_pool.h"
#include "smolder/eager/cpu/kernels.h"
#include "smolder/eager/cpu/scratch.h"

namespace smolder::eager {

using ir::Op;
using ir::ValueId;

namespace {

/// Elements of a piece: some values of a piece are to fit the second-level cache together.
constexpr int64_t kPiece = 8192;
/// Elements up to which values are in some cache anyway, and calls of so many kernels cost as much as is gained.
constexpr int64_t kFew = 1 << 20;
constexpr int64_t kLargestItem = 8;

using Function = void (*)(const KernelCall&);

/// The kernels, null for kExpand; empty where one is a user's, which is to be called once, from its thread.
std::optional<std::vector<Function>> functions_of(std::span<const Pieces::Step> steps) {
  std::vector<Function> out;
  for (const Pieces::Step& s : steps) {
    out.push_back(nullptr);
    if (s.op == Op::kExpand) continue;
    const Kernel* const kernel = find_kernel(DispatchKey::kCPU, s.op);
    const Function* const plain = kernel ? kernel->target<Function>() : nullptr;
    const auto ours = std::ranges::find(cpu_kernels(), s.op, &CpuKernel::op);
    if (!plain || ours == cpu_kernels().end() || *plain != ours->run) return std::nullopt;
    out.back() = *plain;
  }
  return out;
}

}  // namespace

Pieces::Pieces(Dims shape, std::vector<Step> steps, std::vector<ValueId> outputs, std::vector<bool> full)
    : shape_(std::move(shape)),
      steps_(std::move(steps)),
      outputs_(std::move(outputs)),
      made_by_(full.size(), -1),
      slots_(full.size(), -1) {
  const auto holds = [](const std::vector<ValueId>& list, ValueId v) {
    return std::ranges::find(list, v) != list.end();
  };
  std::vector<size_t> last(full.size(), 0);
  for (size_t i = 0; i < steps_.size(); ++i) {
    for (const ValueId v : steps_[i].inputs) {
      last[v] = i;
      if (full[v] && made_by_[v] < 0 && !holds(operands_, v)) operands_.push_back(v);
    }
    made_by_[steps_[i].output] = static_cast<int>(i);
    last[steps_[i].output] = i;
  }
  std::vector<int> unused;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& s = steps_[i];
    if (s.op != Op::kExpand && !holds(outputs_, s.output)) {
      if (unused.empty()) unused.push_back(num_slots_++);
      slots_[s.output] = unused.back();
      unused.pop_back();
    }
    std::vector<ValueId> dead = s.inputs;
    dead.push_back(s.output);
    std::ranges::sort(dead);
    const auto repeated = std::ranges::unique(dead);
    dead.erase(repeated.begin(), repeated.end());
    for (const ValueId v : dead) {
      if (last[v] == i && slots_[v] >= 0) unused.push_back(slots_[v]);
    }
  }
}

/// Pieces in order, on one thread.
class Pieces::Task {
 public:
  Task(const Pieces& p, const std::vector<Array>& values, std::span<const Function> functions)
      : p_(p),
        values_(values),
        functions_(functions),
        memory_(scratch<char, 0>(p.num_slots_ * kPiece * kLargestItem)) {}

  void run(int64_t begin, int64_t count) {
    begin_ = begin, count_ = count;
    for (size_t i = 0; i < p_.steps_.size(); ++i) {
      const Step& s = p_.steps_[i];
      if (!functions_[i]) continue;
      inputs_.clear();
      for (const ValueId v : s.inputs) inputs_.push_back(view(v));
      const TensorView out = view(s.output, s.dtype);
      functions_[i]({s.op, inputs_, {&out, 1}, s.attrs, &errors_});
    }
  }

 private:
  TensorView view(ValueId v) const {
    if (const int maker = p_.made_by_[v]; maker >= 0) {
      const Step& s = p_.steps_[maker];
      if (s.op != Op::kExpand) return view(v, s.dtype);
      TensorView one = values_[s.inputs[0]].view();
      if (!one.weak) one.shape = {count_}, one.strides = {0};
      return one;
    }
    return values_[v].weak ? values_[v].view() : view(v, values_[v].dtype);
  }
  TensorView view(ValueId v, DType dtype) const {
    const auto item = static_cast<int64_t>(itemsize(dtype));
    char* const at = p_.slots_[v] >= 0 ? memory_ + p_.slots_[v] * kPiece * kLargestItem
                                       : static_cast<char*>(values_[v].data) + begin_ * item;
    return {at, dtype, {count_}, {1}, false};
  }

  const Pieces& p_;
  const std::vector<Array>& values_;
  std::span<const Function> functions_;
  char* memory_;
  int64_t begin_ = 0, count_ = 0;
  std::vector<TensorView> inputs_;
  ErrorReport errors_;  // elementwise primitives have none to report
};

bool Pieces::run(std::vector<Array>& values, DispatchKey key) const {
  const int64_t n = numel(shape_);
  if (n <= kFew || key != DispatchKey::kCPU) return false;
  if (!std::ranges::all_of(operands_, [&](ValueId v) { return values[v].is_contiguous(); })) return false;
  const auto functions = functions_of(steps_);
  if (!functions) return false;
  static Counter& by_pieces = counter("eager.by_pieces");
  by_pieces.add();
  for (const ValueId v : outputs_) values[v] = Array::empty(shape_, steps_[made_by_[v]].dtype);
  parallel_for(ceil_div(n, kPiece), 1, [&](int64_t begin, int64_t end) {
    Task task(*this, values, *functions);
    for (int64_t i = begin; i < end; ++i) task.run(i * kPiece, std::min(kPiece, n - i * kPiece));
  });
  return true;
}

}  // namespace smolder::eager
