#include "smolder/jit/schedule/checks.h"

#include <algorithm>
#include <vector>

#include "smolder/ir/control_flow.h"
#include "smolder/jit/library/library.h"
#include "smolder/jit/library/waits.h"
#include "smolder/jit/switches.h"

namespace smolder::jit {

namespace {

/// One that looks at the indices that another has looked at finds none that is out of range, as in layers that each
/// write their cache at one position.
class CheckSearch {
 public:
  CheckSearch(Program& p, std::span<const int> launch_of)
      : p_(p), launch_of_(launch_of), maker_(p.buffers.size(), -1) {}

  void run() {
    const DeviceType device = p_.options.device.type;
    p_.checks = false;
    p_.last_check = -1;
    p_.early_checks.clear();
    for (int s = 0; s < static_cast<int>(p_.steps.size()); ++s) {
      Step& step = p_.steps[s];
      step.is_looked_at = false;
      if (looks_at_index(step, device)) found(launch_of_[s]);
      if (is_scatter(step)) scatter(s);
      for (const BufferId b : step.writes) maker_[b] = launch_of_[s];
      // A fact about an index no longer holds where another value is written over it.
      std::erase_if(
          known_, [&](const Known& k) { return std::ranges::find(step.writes, k.index->buffer) != step.writes.end(); });
    }
    std::ranges::stable_sort(p_.early_checks, {}, &Program::EarlyCheck::after);
  }

 private:
  struct Known {
    const LibraryCall::Operand* index;
    ir::Dim bound;
  };

  void found(int launch) {
    p_.checks = true;
    p_.last_check = std::max(p_.last_check, launch);
  }

  void scatter(int s) {
    const LibraryCall& call = *p_.steps[s].library;
    const Known known{&call.inputs[1], axis_extent(call)};
    if (call.inputs[1].kind != LibraryCall::Operand::kBuffer) return found(launch_of_[s]);
    const bool on_cpu = p_.options.device == DeviceType::kCPU;
    if (std::ranges::any_of(known_, [&](const Known& k) { return covers(k, known); })) {
      p_.steps[s].is_looked_at = !on_cpu;
      return;
    }
    known_.push_back(known);
    if (on_cpu) return found(launch_of_[s]);
    const int after = maker_[call.inputs[1].buffer];
    found(after);
    p_.steps[s].is_looked_at = true;
    p_.early_checks.push_back({s, after});
  }

  bool covers(const Known& a, const Known& b) {
    return a.index->buffer == b.index->buffer && a.index->offset == b.index->offset &&
           std::ranges::equal(a.index->shape, b.index->shape) &&
           std::ranges::equal(a.index->strides, b.index->strides) && p_.graph.sym.less_equal(a.bound, b.bound);
  }

  Program& p_;
  const std::span<const int> launch_of_;
  std::vector<int> maker_;  ///< by buffer: the last launch so far that writes it
  std::vector<Known> known_;
};

}  // namespace

ir::Dim axis_extent(const LibraryCall& call) {
  const ir::SymDims& shape = call.outputs[0].shape;
  const size_t word = call.op == ir::Op::kScatterInto ? 1 : 0;
  const auto axis = static_cast<int>(call.attrs[word].value);
  return shape.empty() ? ir::Dim(1) : shape[axis < 0 ? axis + shape.size() : axis];
}

bool is_scatter(const Step& step) {
  if (!step.library) return false;
  const ir::Op op = step.library->op;
  return op == ir::Op::kIndexAdd || op == ir::Op::kIndexSet || op == ir::Op::kScatterAdd || op == ir::Op::kScatterInto;
}

bool looks_at_index(const Step& step, DeviceType device) {
  if (step.kernel) return !step.kernel->errors.empty();
  if (ir::is_control_flow(step.library->op)) return true;
  return device == DeviceType::kCUDA && is_fallback(device, step.library->op);
}

bool may_throw(const Step& step) {
  return step.library && is_users(step.library->op) && !waits_on_device(step.library->op);
}

void find_checks(Program& program, std::span<const int> launch_of) {
  CheckSearch(program, launch_of).run();
  if (program.options.device == DeviceType::kCPU || !is_disabled("guard")) return;
  // So that the cost of guards can be measured.
  program.checks = false;
  program.last_check = -1;
  program.early_checks.clear();
  for (Step& step : program.steps) step.is_looked_at = false;
}

}  // namespace smolder::jit
