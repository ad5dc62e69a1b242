#include "smolder/lazy/recompute.h"

namespace smolder::lazy {

Recomputation::Recomputation() : outer_(current_) { current_ = this; }
Recomputation::~Recomputation() { current_ = outer_; }

std::vector<Operand> Recomputation::fence(std::span<const Operand> operands, Tensor (*barrier)(const Operand& before)) {
  std::vector<Operand> out(operands.begin(), operands.end());
  for (Operand& o : out) {
    if (o.kind() != Operand::kTensor) continue;
    const ValueRef& value = o.impl()->value;
    if (value->external || made_.contains(value.get())) continue;
    Fence& fence = fences_[value.get()];
    if (!fence.before) {
      fence.before = value;
      fence.behind = barrier(o);
    }
    // Not yet there for the ops that the barrier of complex numbers is made of.
    if (fence.behind.defined()) o = Operand(fence.behind);
  }
  return out;
}

void Recomputation::note(std::span<const Tensor> results) {
  for (const Tensor& t : results) made_.insert(t.impl()->value.get());
}

}  // namespace smolder::lazy
