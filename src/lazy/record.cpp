#include "smolder/lazy/record.h"

#include <absl/container/node_hash_set.h>

#include <cstring>
#include <mutex>

#include "smolder/core/counters.h"
#include "smolder/eager/execute.h"
#include "smolder/lazy/tape.h"
#include "smolder/lazy/view.h"

namespace smolder::lazy {
namespace {

struct Modes {
  bool grad = true;
  bool eager = false;
};
SMOLDER_THREAD_LOCAL Modes t_modes;
GradHook g_grad_hook = nullptr;

struct MetaHash {
  size_t operator()(const ir::Meta& m) const {
    Hash128 h{static_cast<uint64_t>(m.dtype), static_cast<uint64_t>(m.shape.size() * 2 + m.weak)};
    for (int64_t e : m.shape) mix(h, e);
    return h.lo;
  }
};

/// Runs the op now. Operands that are pending are computed first.
void run_eagerly(Tape& tape, ir::Op op, std::span<const Operand> operands, std::span<const int64_t> attrs,
                 std::span<ValueRef> outputs, SourceToken source) {
  for (const Operand& o : operands) {
    if (o.kind() == Operand::kTensor && o.impl()->value->pending) {
      tape.sync("eager op", source);
      break;
    }
  }
  std::vector<eager::Array> inputs;
  inputs.reserve(operands.size());
  for (const Operand& o : operands) {
    if (o.kind() == Operand::kTensor) {
      const Value& v = *o.impl()->value;
      inputs.push_back(eager::Array::wrap(v.buffer, v.meta->shape, v.meta->dtype));
    } else {
      inputs.push_back(o.kind() == Operand::kNumber ? eager::Array::from_number(o.number()) : eager::Array());
    }
  }
  static Counter& ops = counter("ops.eager");
  ops.add();
  const std::vector<eager::Array> results = eager::execute(op, inputs, attrs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const eager::Array own = owned(results[i]);
    outputs[i] = tape.adopt(own.buffer, intern(own.meta()));
  }
}

bool any_requires_grad(std::span<const Operand> operands) {
  for (const Operand& o : operands) {
    if (o.kind() == Operand::kTensor && o.impl()->requires_grad) return true;
  }
  return false;
}

/// Records or runs an op of at most kMost results and makes handles for them.
template <size_t kMost>
void record_values(ir::Op op, std::span<const Operand> operands, std::span<const int64_t> attrs, Tensor* outputs,
                   size_t count) {
  ValueRef values[kMost];
  SMOLDER_INVARIANT(count <= kMost);
  Tape& tape = Tape::cpu();
  if (t_modes.eager) [[unlikely]] {
    const SourceToken source = capture_source();
    const std::lock_guard hold(tape.mutex());
    run_eagerly(tape, op, operands, attrs, {values, count}, source);
  } else {
    const auto attempt = [&](const SourceToken* source) {
      const std::lock_guard hold(tape.mutex());
      return tape.record(op, operands, attrs, values, source);
    };
    if (!attempt(nullptr)) {
      const SourceToken source = capture_source();
      attempt(&source);
    }
  }
  for (size_t i = 0; i < count; ++i) outputs[i] = Tensor::first(new TensorImpl(std::move(values[i])));
}

}  // namespace

eager::Array owned(const eager::Array& a) {
  if (!a.is_contiguous()) return eager::contiguous(a);
  if (a.buffer && a.data == a.buffer->data()) return a;
  eager::Array copy = eager::Array::empty(a.shape, a.dtype);
  if (a.bytes()) std::memcpy(copy.data, a.data, a.bytes());
  return copy;
}

const ir::Meta* intern(const ir::Meta& m) {
  static std::mutex lock;
  static auto* const known = new absl::node_hash_set<ir::Meta, MetaHash>;
  std::lock_guard hold(lock);
  return &*known->insert(m).first;
}

bool grad_enabled() { return t_modes.grad; }
void set_grad_enabled(bool on) { t_modes.grad = on; }
bool eager_enabled() { return t_modes.eager; }
void set_eager_enabled(bool on) { t_modes.eager = on; }
void set_grad_hook(GradHook hook) { g_grad_hook = hook; }

void record(ir::Op op, std::span<const Operand> operands, std::span<const int64_t> attrs, Tensor* outputs) {
  for (const Operand& o : operands) {
    if (o.kind() == Operand::kTensor) refresh(o.impl());
  }
  const ir::OpInfo& row = ir::info(op);
  if (row.num_outputs == 1) {
    record_values<1>(op, operands, attrs, outputs, 1);
  } else {
    record_values<8>(op, operands, attrs, outputs, row.num_outputs);
  }
  if (row.flags.view) link_view(outputs[0].impl(), operands[0].impl(), op, attrs);
  if (t_modes.grad && g_grad_hook && any_requires_grad(operands)) g_grad_hook(op, operands, attrs, outputs);
}

void record_inplace(ir::Op op, std::span<const Operand> operands, std::span<const int64_t> attrs, Tensor& self) {
  Tensor out;
  record(op, operands, attrs, &out);
  write_inplace(ir::name(op), self, std::move(out));
}

void write_inplace(std::string_view op, Tensor& self, Tensor result) {
  SMOLDER_CHECK(result.shape() == self.shape(), RuntimeError, op, "_: output with shape ", self.shape(),
                " doesn't match the broadcast shape ", result.shape());
  if (result.dtype() != self.dtype()) {
    SMOLDER_CHECK(category(result.dtype()) <= category(self.dtype()), RuntimeError, op, "_: result type ",
                  name(result.dtype()), " can't be cast to the desired output type ", name(self.dtype()),
                  " of the tensor written in place");
    result = result.to(self.dtype());
  }
  assign(self, result);
}

}  // namespace smolder::lazy

namespace smolder {

void mark_step() {
  const SourceToken source = capture_source();
  lazy::Tape& tape = lazy::Tape::cpu();
  const std::lock_guard hold(tape.mutex());
  tape.mark();
  tape.sync("mark_step", source);
}

void step_boundary(std::string_view reason) {
  const SourceToken source = capture_source();
  lazy::Tape& tape = lazy::Tape::cpu();
  const std::lock_guard hold(tape.mutex());
  if (tape.boundary_ends_step()) tape.sync(reason, source);
}

}  // namespace smolder
