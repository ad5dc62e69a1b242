#include "smolder/lazy/record.h"

#include <absl/container/node_hash_set.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "smolder/core/counters.h"
#include "smolder/core/fork.h"
#include "smolder/core/memory_history.h"
#include "smolder/core/profile.h"
#include "smolder/core/size.h"
#include "smolder/eager/execute.h"
#include "smolder/jit/cuda/shared.h"
#include "smolder/lazy/ask.h"
#include "smolder/lazy/batch_access.h"
#include "smolder/lazy/complex_access.h"
#include "smolder/lazy/default_dtype.h"
#include "smolder/lazy/known.h"
#include "smolder/lazy/observers.h"
#include "smolder/lazy/ops.h"
#include "smolder/lazy/recompute.h"
#include "smolder/lazy/result_layout.h"
#include "smolder/lazy/run_op.h"
#include "smolder/lazy/step_log.h"
#include "smolder/lazy/storage.h"
#include "smolder/lazy/strides.h"
#include "smolder/lazy/tape.h"
#include "smolder/lazy/view.h"
#include "smolder/lazy/wrapper.h"

namespace smolder::lazy {
namespace {

GradHook g_grad_hook = nullptr;
AskHook g_ask_hook = nullptr;

struct MetaHash {
  size_t operator()(const ir::Meta& m) const {
    Hash128 h{static_cast<uint64_t>(m.dtype), static_cast<uint64_t>(m.shape.size() * 2 + m.weak)};
    for (int64_t e : m.shape) mix(h, e);
    return h.lo;
  }
};

/// Whether a result is a view of memory that somebody else sees.
bool in_external(const eager::Array& result, std::span<const Operand> operands) {
  return std::ranges::any_of(operands, [&](const Operand& o) {
    return o.kind() == Operand::kTensor && o.impl()->value->external &&
           owner_of(o.impl())->external->buffer == result.buffer;
  });
}

/// The number that is the only element.
Scalar number_in(const eager::Array& a) {
  if (a.dtype == DType::kBool) return *static_cast<const bool*>(a.data);
  return a.dtype == DType::kInt64 ? Scalar(*static_cast<const int64_t*>(a.data))
                                  : Scalar(*static_cast<const double*>(a.data));
}

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
      if (!v.external && !has_memory(v)) tape.raise_no_value();
      eager::Array input =
          v.external ? window(Tensor(o.impl())) : eager::Array::wrap(v.buffer, v.meta->shape, v.meta->dtype);
      if (v.meta->weak) input = eager::Array::from_number(number_in(input));
      inputs.push_back(std::move(input));
    } else {
      inputs.push_back(o.kind() == Operand::kNumber ? eager::Array::from_number(o.number()) : eager::Array());
    }
  }
  const MemoryFor use(ir::name(op), source);
  static Counter& ops = counter("ops.eager");
  ops.add();
  const Device device = tape.device();
  const int64_t began = StepLog::is_on() ? now_ns() : 0;
  const std::vector<eager::Array> results = run_op(op, inputs, attrs, device, source);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const eager::Array own = in_external(results[i], operands) ? copied(results[i]) : owned(results[i], device);
    outputs[i] = tape.adopt(own.buffer, intern(own.meta()));
  }
  if (began) [[unlikely]] {
    RanOp ran{.op = op, .source = source};
    ran.ns = static_cast<double>(now_ns() - began);
    const auto count = [&](const ir::Meta& m) {
      ran.bytes += numel(m.shape) * static_cast<int64_t>(itemsize(m.dtype));
    };
    for (const Operand& o : operands) {
      if (o.kind() == Operand::kTensor) count(*o.meta());
    }
    for (const ValueRef& v : outputs) {
      count(*v->meta);
      ran.results.push_back(*v->meta);
    }
    StepLog::note_eager(tape.device(), ran);
  }
}

/// A call of an op: what is recorded, and where the results go.
struct Call {
  ir::Op op;
  std::span<const Operand> operands;
  std::span<const int64_t> attrs;
  Tensor* outputs;
  // Seen in one pass over the operands.
  bool external = false;  ///< some may be in external memory
  bool requires_grad = false;
  bool mixed = false;    ///< they are on several devices
  bool batched = false;  ///< some are elements of a batch
  bool wrapper = false;  ///< some are of classes that answer for them
  bool complex = false;  ///< some are complex
  bool windows = false;  ///< some may lie otherwise than in row-major order
  Device device = {};

  void look_at_operands() {
    const Value* first = nullptr;
    for (const Operand& o : operands) {
      if (o.kind() != Operand::kTensor) continue;
      TensorImpl* const impl = o.impl();
      refresh(impl);
      const Value* const v = impl->value.get();
      external |= v->external;
      batched |= v->batched;
      wrapper |= v->wrapper;
      complex |= is_complex(v->meta->dtype);
      windows |= impl->may_be_window();
      requires_grad |= impl->requires_grad;
      if (!first) first = v;
      mixed |= v->device != first->device;
    }
    device = first ? first->device : creation_device();
  }
  [[noreturn]] void raise_devices(Device a, Device b) const {
    raise<RuntimeError>(ir::name(op),
                        ": Expected all tensors to be on the same device, but found at least two devices, ",
                        to_string(a), " and ", to_string(b), "!");
  }
};

/// Records or runs an op and makes handles for its results, in `values` first.
inline void record_values(const Call& c, std::span<const Operand> operands, ValueRef* values, size_t count) {
  Tape& tape = Tape::on(c.device);
  if (tape.device() != c.device) [[unlikely]]
    BranchObserver::current()->refuse_device(c.device);       // a branch's tape stands for the CPU's
  const bool is_plan_of_one = c.device == DeviceType::kCUDA;  // which is what an eager op is there
  if (t_modes.eager && !is_plan_of_one) [[unlikely]] {
    const SourceToken source = capture_source();
    const std::lock_guard hold(tape.mutex());
    run_eagerly(tape, c.op, operands, c.attrs, {values, count}, source);
  } else {
    const auto attempt = [&](const SourceToken* source) {
      const std::lock_guard hold(tape.mutex());
      return tape.record(c.op, operands, c.attrs, values, source);
    };
    if (!attempt(nullptr)) [[unlikely]] {
      const SourceToken source = capture_source();
      attempt(&source);
    }
    // A view computes nothing: it runs with what reads it, which then finds operands as a step does.
    if (t_modes.eager && !ir::info(c.op).flags.view) [[unlikely]] {
      const SourceToken source = capture_source();
      const std::lock_guard hold(tape.mutex());
      tape.sync("eager op", source);
    }
  }
  for (size_t i = 0; i < count; ++i) {
    c.outputs[i] = Tensor::first(new TensorImpl(std::move(values[i])));
    c.outputs[i].impl()->inference = t_modes.inference;
  }
}

/// The same for an op of at most kMost results.
template <size_t kMost>
inline void record_values(const Call& c, std::span<const Operand> operands, size_t count) {
  ValueRef values[kMost];
  record_values(c, operands, values, count);
}

/// The same for ops of users, which may have more.
void record_many(const Call& c, std::span<const Operand> operands, size_t count) {
  std::vector<ValueRef> values(count);
  record_values(c, operands, values.data(), count);
}

/// The same behind fences.
void record_again(Recomputation& again, const Call& c, size_t count) {
  const auto barrier = [](const Operand& before) {
    Tensor behind;
    record(ir::Op::kBarrier, {&before, 1}, {}, &behind);
    return behind;
  };
  record_many(c, again.fence(c.operands, barrier), count);
  again.note({c.outputs, count});
}

/// As many as ops of the table have.
constexpr size_t kFewResults = 8;

/// Records or runs an op whose operands the runtime may read later.
inline void record_known(const Call& c) {
  const size_t count = ir::info(c.op).num_outputs;
  if (Recomputation* const again = Recomputation::current(); again && !t_modes.eager && c.op != ir::Op::kBarrier)
      [[unlikely]] {
    record_again(*again, c, count);
  } else if (count == 1) {
    record_values<1>(c, c.operands, 1);
  } else if (count <= kFewResults) {
    record_values<kFewResults>(c, c.operands, count);
  } else {
    record_many(c, c.operands, count);
  }
}

/// The effects of a call beside computing: views are linked, history is recorded.
inline void finish(const Call& c) {
  if (ir::info(c.op).flags.view) link_view(c.outputs[0].impl(), c.operands[0].impl(), c.op, c.attrs);
  if (c.requires_grad && t_modes.grad && g_grad_hook) g_grad_hook(c.op, c.operands, c.attrs, c.outputs);
}

/// Bytes of external memory below which copying it is not worth a thought.
constexpr int64_t kLittle = 1 << 20;

/// Whether the op reads much external memory and makes little of it, as indexing a data set does.
bool condenses(std::span<const Operand> operands, std::span<const ir::Meta> results) {
  const auto bytes = [](const ir::Meta& m) { return numel(m.shape) * static_cast<int64_t>(itemsize(m.dtype)); };
  int64_t external = 0, made = 0;
  for (const Operand& o : operands) {
    if (o.kind() == Operand::kTensor && o.impl()->value->external) external += bytes(*o.impl()->value->meta);
  }
  for (const ir::Meta& m : results) made += bytes(m);
  return external > kLittle && made * 4 <= external;
}

/// The same where an operand's memory may change as soon as this returns.
void record_external(const Call& c) {
  const ir::OpInfo& row = ir::info(c.op);
  std::vector<const ir::Meta*> inputs;
  for (const Operand& o : c.operands) inputs.push_back(o.meta());
  std::vector<ir::Meta> results(row.num_outputs);
  row.infer({inputs, c.attrs}, results.data());
  if (row.flags.view) {
    c.outputs[0] = Tensor(new TensorImpl(stand_in(intern(results[0]), c.device)));
    return finish(c);
  }
  const bool saves = t_modes.grad && c.requires_grad;  // values, which no later write may reach
  const bool condensed = !saves && condenses(c.operands, results);
  if (c.device == DeviceType::kCUDA && condensed) {
    const EagerMode now;
    const jit::cuda::SharedUse use(c.device.index);
    const Snapshots lent(c.operands, Snapshots::kLent);
    return record_known(c);
  }
  if (c.device == DeviceType::kCPU && !saves && (t_modes.eager || condensed)) {
    const EagerMode now;
    return record_known(c);
  }
  const Snapshots snapshots(c.operands);
  record_known(c);
  finish(c);
}

/// Whether an operand is in external memory.
bool any_external(std::span<const Operand> operands) {
  bool found = false;
  for (const Operand& o : operands) {
    // Asking may make storage private again, which some operand before may have had too.
    if (o.kind() == Operand::kTensor) found |= is_external(Tensor(o.impl()));
  }
  return found;
}

}  // namespace

eager::Array owned(const eager::Array& a, Device device) {
  if (a.weak) {  // an op of numbers alone
    SMOLDER_CHECK(device.type == DeviceType::kCPU, NotImplementedError, "an op of numbers alone is not supported on ",
                  to_string(device));
    eager::Array number = eager::Array::empty({}, a.dtype);
    std::memcpy(number.data, &a.number, itemsize(a.dtype));
    number.weak = true;
    return number;
  }
  if (!a.is_contiguous()) return eager::contiguous(a, eager::dispatch_key(device));
  if (a.buffer && a.data == a.buffer->data()) return a;
  eager::Array copy = eager::Array::empty(a.shape, a.dtype, device);
  if (!a.bytes()) return copy;
  if (device == DeviceType::kCPU) {
    std::memcpy(copy.data, a.data, a.bytes());
  } else {
    const BufferRef host = allocate(a.bytes());
    copy_to_host(host->data(), a.data, a.bytes(), device);
    copy_from_host(copy.data, host->data(), a.bytes(), device);
  }
  return copy;
}

namespace {
ForkMutex g_interning;
}  // namespace

const ir::Meta* intern(const ir::Meta& m) {
  static auto* const known = new absl::node_hash_set<ir::Meta, MetaHash>;
  const std::lock_guard hold(g_interning);
  if (const auto found = known->find(m); found != known->end()) return &*found;
  storage_bytes(m.shape, m.dtype);  // no tensor may be larger, however it was made
  return &*known->insert(m).first;
}

void set_grad_hook(GradHook hook) { g_grad_hook = hook; }

SMOLDER_THREAD_LOCAL bool t_asking = false;
void set_ask_hook(AskHook hook) { g_ask_hook = hook; }

namespace {

void record_mixed(const Call& c);
void record_asked(const Call& c);
bool record_in_default_dtype(const Call& c);

/// In vmap: the rule of the op, and the history of the level.
void record_batched(const Call& c) {
  std::vector<Operand> own;
  std::vector<Tensor> kept;
  const bool requires_grad = record_elements(c.op, c.operands, c.attrs, c.outputs, own, kept);
  Call call{c.op, own, c.attrs, c.outputs};
  call.requires_grad = requires_grad;
  finish(call);
}

inline void record_seen(const Call& c) {
  if (c.complex && c.op != ir::Op::kViewAsReal) [[unlikely]]
    return record_complex(c.op, c.operands, c.attrs, c.outputs);
  if (c.batched) [[unlikely]]
    return record_batched(c);
  if (c.mixed) [[unlikely]]
    return record_mixed(c);
  if (c.external && any_external(c.operands)) [[unlikely]]
    return record_external(c);
  record_known(c);
  finish(c);
}

inline void record_call(Call c) {
  if (default_dtype() != DType::kFloat32 && record_in_default_dtype(c)) [[unlikely]]
    return;
  c.look_at_operands();
  if (c.wrapper) [[unlikely]]
    return record_asked(c);
  record_seen(c);
  if (c.windows && !ir::info(c.op).flags.view) [[unlikely]]
    lay_out(c.op, c.operands, {c.outputs, ir::info(c.op).num_outputs});
}

/// Where the default dtype is not float32: whether it changed the operands, and recorded the op of those.
bool record_in_default_dtype(const Call& c) {
  std::vector<Tensor> kept;
  const std::vector<Operand> operands = in_default_dtype(c.op, c.operands, c.attrs, kept);
  if (operands.empty()) return false;
  record_call({c.op, operands, c.attrs, c.outputs});
  return true;
}

/// Elementwise ops take tensors of the CPU without dimensions beside those of a device, as in torch: they are copied
/// there.
void record_mixed(const Call& c) {
  const auto device_of = [](const Operand& o) { return o.impl()->value->device; };
  const auto is_tensor = [](const Operand& o) { return o.kind() == Operand::kTensor; };
  const auto is_on_device = [&](const Operand& o) { return is_tensor(o) && device_of(o) != DeviceType::kCPU; };
  const Device where = device_of(*std::ranges::find_if(c.operands, is_on_device));
  std::vector<Tensor> copies;
  copies.reserve(c.operands.size());
  std::vector<Operand> operands(c.operands.begin(), c.operands.end());
  for (Operand& o : operands) {
    if (!is_tensor(o) || device_of(o) == where) continue;
    const bool may_be_copied = device_of(o) == DeviceType::kCPU && o.meta()->shape.empty();
    if (!may_be_copied || !ir::info(c.op).flags.elementwise) c.raise_devices(where, device_of(o));
    o = Operand(copies.emplace_back(Tensor(o.impl()).to(where)));
  }
  record_call({c.op, operands, c.attrs, c.outputs});
}

/// In a branch: tensors from outside are seen through their stand-ins.
void record_inside(BranchObserver& branch, const Call& c) {
  const auto has_none = [](const Operand& o) {  // memory
    return o.kind() == Operand::kTensor && (o.impl()->value->batched || o.impl()->value->wrapper);
  };
  if (std::ranges::any_of(c.operands, has_none)) return record_call(c);
  const std::vector<Operand> inside = branch.inside(c.operands);
  record_call({c.op, inside, c.attrs, c.outputs});
}

/// Where a mode or a class sees ops: the outputs are what it answers, in handles of their own, as it may keep those or
/// have them from another call.
void record_asked(const Call& c) {
  {
    const GradMode off(false);
    g_ask_hook(c.op, c.operands, c.attrs, c.outputs);
  }
  const auto is_operand = [&](const Tensor& t) {
    return std::ranges::any_of(c.operands,
                               [&](const Operand& o) { return o.kind() == Operand::kTensor && o.impl() == t.impl(); });
  };
  for (size_t i = 0; i < ir::info(c.op).num_outputs; ++i) {
    Tensor& out = c.outputs[i];
    const bool linked = !out.impl()->value->wrapper;  // to the base, as the view that it is
    if (linked && ir::info(c.op).flags.view && !out.requires_grad() && !is_operand(out)) continue;
    refresh(out.impl());
    const Tensor answered = std::exchange(out, Tensor(new TensorImpl(out.impl()->value)));
    if (!linked && answered.impl()->order) out.impl()->order = std::make_unique<Dims>(*answered.impl()->order);
  }
  if (c.requires_grad && t_modes.grad && g_grad_hook) g_grad_hook(c.op, c.operands, c.attrs, c.outputs);
}

}  // namespace

void record(ir::Op op, std::span<const Operand> operands, std::span<const int64_t> attrs, Tensor* outputs) {
  if (t_asking) [[unlikely]] {
    Call c{op, operands, attrs, outputs};
    c.look_at_operands();
    return record_asked(c);
  }
  if (BranchObserver* const branch = BranchObserver::current()) [[unlikely]]
    return record_inside(*branch, {op, operands, attrs, outputs});
  record_call({op, operands, attrs, outputs});
}

void record_random(ir::Op op, std::span<const Operand> operands, std::span<const int64_t> attrs, Tensor* outputs) {
  if (batch_depth() == 0) return record(op, operands, attrs, outputs);
  record_batched({op, operands, attrs, outputs});
}

void record_inplace(ir::Op op, std::span<const Operand> operands, std::span<const int64_t> attrs, Tensor& self) {
  for (const Operand& o : operands) {
    if (o.kind() == Operand::kTensor && o.impl() != self.impl()) check_no_partial_overlap(self, Tensor(o.impl()));
  }
  Tensor out;
  record(op, operands, attrs, &out);
  write_inplace(ir::name(op), self, std::move(out));
}

namespace {

/// Ops that torch lets write to a tensor with several elements in one place: the last that they change counts.
bool may_meet_repeats(std::string_view op) {
  constexpr std::string_view kOps[] = {"fill", "zero", "masked_fill", "index_fill", "fill_diagonal"};
  return std::ranges::find(kOps, op) != std::end(kOps);
}

/// Makes `self`, which a write of one number fills, and `result` have each element once that is repeated.
void drop_repeats(Tensor& self, Tensor& result) {
  const Layout l = layout(self);
  for (int i = 0; i < l.strides.size(); ++i) {
    if (l.strides[i] == 0 && self.shape()[i] > 1) self = slice(self, i, 0, 1), result = slice(result, i, 0, 1);
  }
}

}  // namespace

void write_inplace(std::string_view op, Tensor& self, Tensor result) {
  if (has_repeats(self)) [[unlikely]] {
    SMOLDER_CHECK(may_meet_repeats(op), RuntimeError, kOverlap);
    if ((op == "fill" || op == "zero") && result.shape() == self.shape()) {
      Tensor once = self;
      drop_repeats(once, result);
      return write_inplace(op, once, std::move(result));
    }
  }
  if (self.impl()->value->wrapper || result.impl()->value->wrapper) [[unlikely]]
    check_write(std::string(op) + "_", self, result);
  SMOLDER_CHECK(result.shape() == self.shape(), RuntimeError, op, "_: output with shape ", self.shape(),
                " doesn't match the broadcast shape ", result.shape());
  SMOLDER_CHECK(result.device() == self.device(), RuntimeError, op,
                "_: Expected all tensors to be on the same device, but found at least two devices, ",
                to_string(self.device()), " and ", to_string(result.device()), "!");
  if (result.dtype() != self.dtype()) {
    SMOLDER_CHECK(category(result.dtype()) <= category(self.dtype()), RuntimeError, op, "_: result type ",
                  name(result.dtype()), " can't be cast to the desired output type ", name(self.dtype()),
                  " of the tensor written in place");
    result = result.to(self.dtype());
  }
  // The old elements are gone: their gradient is zero, and not none, which an optimizer would leave out.
  if (grad_enabled() && !result.requires_grad() && self.requires_grad() && !self.is_leaf()) {
    const Operand operands[] = {Operand(self), Operand(result)};
    Tensor copied;
    record(ir::Op::kCopy, operands, {}, &copied);
    result = std::move(copied);
  }
  assign(self, result);
}

}  // namespace smolder::lazy

namespace smolder {

void mark_step() {
  const SourceToken source = capture_source();
  lazy::Tape::each([&](lazy::Tape& tape) {
    tape.mark();
    tape.sync("mark_step", source);
  });
}

void run_recorded(std::string_view reason) {
  const SourceToken source = capture_source();
  lazy::Tape::each([&](lazy::Tape& tape) { tape.sync(reason, source); });
}

void step_boundary(std::string_view reason) {
  if (lazy::CaptureObserver::current()) return;  // the function's step ends where it does
  const SourceToken source = capture_source();
  lazy::Tape::each([&](lazy::Tape& tape) {
    if (tape.boundary_ends_step()) tape.sync(reason, source);
  });
}

}  // namespace smolder
