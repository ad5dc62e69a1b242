#include "smolder/lazy/storage.h"

#include <algorithm>
#include <mutex>

#include "smolder/core/counters.h"
#include "smolder/core/memory_history.h"
#include "smolder/core/profile.h"
#include "smolder/eager/dispatcher.h"
#include "smolder/jit/cuda/shared.h"
#include "smolder/lazy/batch_access.h"
#include "smolder/lazy/former.h"
#include "smolder/lazy/observers.h"
#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/strides.h"
#include "smolder/lazy/tape.h"
#include "smolder/lazy/view.h"

namespace smolder::lazy {
namespace {

void copy_elements(const eager::Array& from, const eager::Array& to) {
  if (!numel(to.shape)) return;
  if (is_complex(to.dtype)) return copy_elements(eager::as_pairs(from), eager::as_pairs(to));
  const eager::TensorView in = from.view(), out = to.view();
  if (const Device d = to.buffer->device(); d == DeviceType::kCUDA) return jit::cuda::copy_shared(d.index, in, out);
  eager::ErrorReport errors;
  eager::dispatch(eager::DispatchKey::kCPU, {ir::Op::kBarrier, {&in, 1}, {&out, 1}, {}, &errors});
}

ValueRef adopt(BufferRef buffer, const ir::Meta* meta, Device device) {
  Tape& tape = Tape::on(device);
  const std::lock_guard hold(tape.mutex());
  return tape.adopt(std::move(buffer), meta);
}

/// The elements, in memory that nobody writes: computed, or copied where somebody might.
eager::Array elements_of(const Tensor& t, std::string_view reason) {
  if (is_external(t)) return copied(window(t));
  check_readable(*t.impl()->value, reason);
  const SourceToken source = capture_source();
  break_capture(reason, source);
  const Value& value = *t.impl()->value;
  Tape& tape = Tape::on(value.device);
  const std::lock_guard hold(tape.mutex());
  tape.hear();
  if (value.pending) tape.sync(reason, source);
  if (!value.buffer) tape.raise_no_value();
  return eager::Array::wrap(value.buffer, t.shape(), t.dtype());
}

/// Foreign memory, of which `is_left` says whether nobody else is left to see it.
struct Watched {
  BufferRef memory;
  std::function<bool()> is_left;
  void operator()(Buffer*) { memory.reset(); }
};

/// Makes storage private once no array is left that could see it.
void take_back(TensorImpl* owner) {
  const External& e = *owner->external;
  if (e.buffer.use_count() != 1) return;
  if (e.foreign) {
    const auto* const watched = std::get_deleter<Watched>(e.buffer);
    if (!watched || !(e.strides == contiguous_strides(owner->value->meta->shape)) || !watched->is_left()) return;
    static Counter& taken = counter("storage.taken");
    taken.add();
  }
  const ir::Meta* const meta = owner->value->meta;
  BufferRef row_major = owner->order ? copied(window(Tensor(owner))).buffer : std::move(owner->external->buffer);
  owner->value = adopt(std::move(row_major), meta, owner->value->device);
  owner->external.reset();
  owner->moved();  // views hold stand-ins
}

/// Makes the storage of `owner` external, in the memory that its value has or in memory of its own.
void make_exported(TensorImpl* owner, TensorImpl* asked) {
  const SourceToken source = capture_source();
  const ir::Meta* const meta = owner->value->meta;
  const Device device = owner->value->device;
  eager::Array elements = elements_of(Tensor(owner), "numpy");
  {
    Tape& tape = Tape::on(device);
    const std::lock_guard hold(tape.mutex());
    if (owner->value->tape_refs != 0) tape.sync("numpy", source);  // recorded ops are still to read it
  }
  Value& value = *owner->value;
  elements.buffer.reset();
  // Another name for the storage, as x.detach() is, holds the same value and will hold a stand-in too.
  const uint32_t known = asked != owner && asked->value.get() == &value ? 2 : 1;
  BufferRef buffer;
  const Dims strides = owner->order ? strides_in_order(meta->shape, *owner->order) : contiguous_strides(meta->shape);
  if (!owner->order && value.refs.load(std::memory_order_acquire) == known && value.buffer.use_count() == 1) {
    buffer = std::move(value.buffer);
  } else {
    elements.buffer = value.buffer;
    const MemoryFor use("storage shared with an array", source);
    const CopySpan span("storage shared with an array", source, elements.bytes());
    eager::Array copy = eager::Array::empty(meta->shape, meta->dtype, device);
    copy.strides = strides;
    copy_elements(elements, copy);
    buffer = std::move(copy.buffer);
    record_copy("storage shared with an array", resolve_source(source), buffer->bytes());
  }
  owner->value = stand_in(meta, device);
  owner->external = std::make_unique<External>(std::move(buffer), strides, false);
  owner->moved();  // views read again and hold stand-ins
}

/// The memory of an external tensor as a value, for what reads it at once; a copy where there are gaps.
ValueRef lent_value(TensorImpl* impl) {
  const eager::Array elements = window(Tensor(impl));
  if (!elements.is_contiguous()) return kept_value(impl);
  const Value& value = *impl->value;
  return adopt(wrap_foreign(elements.data, elements.bytes(), value.device, [kept = elements.buffer] {}), value.meta,
               value.device);
}

}  // namespace

ValueRef stand_in(const ir::Meta* meta, Device device) {
  ValueRef v = adopt(nullptr, meta, device);
  v->external = true;
  return v;
}

eager::Array copied(const eager::Array& from) {
  eager::Array to = eager::Array::empty(from.shape, from.dtype, from.buffer ? from.buffer->device() : Device{});
  copy_elements(from, to);
  return to;
}

const void* told_address(TensorImpl* owner, SourceToken source) {
  Tape& tape = Tape::on(owner->value->device);
  BufferRef shared;
  {
    const std::lock_guard hold(tape.mutex());
    tape.hear();
    const Value& value = *owner->value;
    if (value.pending) tape.sync("data_ptr", source);
    if (!value.buffer) tape.raise_no_value();
    if (tape.told().is_of(value.buffer, owner)) return value.buffer->data();
    shared = value.buffer;
  }
  const ir::Meta* const meta = owner->value->meta;
  owner->value = adopt(copied(eager::Array::wrap(shared, meta->shape, meta->dtype)).buffer, meta, owner->value->device);
  owner->moved();  // views hold the former value
  record_copy("storage whose address was asked for", resolve_source(source), shared->bytes());
  return told_address(owner, source);
}

Tensor from_foreign(BufferRef buffer, Dims shape, Dims strides, DType dtype, std::function<bool()> is_left) {
  for (const int64_t s : strides) {
    SMOLDER_CHECK(s >= 0, ValueError,
                  "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
                  "currently supported. (You can probably work around this by making a copy of your array with "
                  "array.copy().)");
  }
  if (is_left) {
    Buffer* const memory = buffer.get();
    buffer = BufferRef(memory, Watched{std::move(buffer), std::move(is_left)});
  }
  Tensor out(new TensorImpl(stand_in(intern({shape, dtype, false}), buffer->device())));
  out.impl()->inference = inference_mode_enabled();
  out.impl()->external = std::make_unique<External>(std::move(buffer), strides, true);
  return out;
}

bool is_external(const Tensor& t) {
  if (any_former()) [[unlikely]]
    refresh(t.impl());
  TensorImpl* const owner = owner_of(t.impl());
  if (owner->external) take_back(owner);
  refresh(t.impl());
  return t.impl()->value->external;
}

eager::Array window(const Tensor& t) {
  const External& e = *owner_of(t.impl())->external;
  const Layout l = layout(t);
  eager::Array out;
  out.buffer = e.buffer;
  out.dtype = t.dtype();
  out.data = static_cast<std::byte*>(e.buffer->data()) + l.offset * static_cast<int64_t>(itemsize(out.dtype));
  out.shape = t.shape();
  out.strides = l.strides;
  return out;
}

eager::Array export_memory(const Tensor& t) {
  const Device device = t.device();
  SMOLDER_CHECK(device == DeviceType::kCPU || device == DeviceType::kCUDA, TypeError,
                "can't share memory of the device ", to_string(t.device()),
                ". Use Tensor.cpu() to copy the tensor to host memory first.");
  refresh(t.impl());
  TensorImpl* const owner = owner_of(t.impl());
  if (!owner->external) make_exported(owner, t.impl());
  const BufferRef used = owner->external->buffer;  // or it would be taken back at once
  refresh(t.impl());
  return window(t);
}

void stay_exported(const Tensor& t, BufferRef held) {
  External& e = *owner_of(t.impl())->external;
  if (e.foreign) return;
  SMOLDER_INVARIANT(held->data() == e.buffer->data());
  e.buffer = std::move(held);
  e.foreign = true;
}

ValueRef kept_value(TensorImpl* impl) {
  const Tensor t(impl);
  if (!is_external(t)) return impl->value;
  const SourceToken source = capture_source();
  const eager::Array elements = window(t);
  const MemoryFor use("snapshot of shared storage", source);
  const CopySpan span("snapshot of shared storage", source, elements.bytes());
  const eager::Array copy = copied(elements);
  record_copy("snapshot of shared storage", resolve_source(source), copy.bytes());
  return adopt(copy.buffer, impl->value->meta, impl->value->device);
}

void write_external(const Tensor& t, const Tensor& source) {
  if (has_repeats(t)) {
    const Layout l = layout(t);
    Tensor once = t;
    for (int i = 0; i < t.dim(); ++i) {
      if (l.strides[i] == 0 && t.shape()[i] > 1) once = slice(once, i, 0, 1);
    }
    return write_external(once, merge_repeats(once, source));
  }
  const eager::Array elements = elements_of(source, "write to storage shared with an array");
  if (const Device device = t.device(); device == DeviceType::kCUDA) {
    Tape& tape = Tape::on(device);
    const std::lock_guard hold(tape.mutex());
    tape.settle_given();
  }
  copy_elements(elements, window(t));
  owner_of(t.impl())->written();
}

namespace {

/// The strides of the dimensions that are longer than 1, which say where the elements are.
Dims telling_strides(const Dims& shape, const Dims& strides) {
  Dims out;
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] > 1) out.push_back(strides[i]);
  }
  return out;
}

}  // namespace

void check_no_partial_overlap(const Tensor& self, const Tensor& other) {
  if (self.impl() == other.impl() || owner_of(self.impl()) != owner_of(other.impl())) return;
  if (self.numel() == 0 || other.numel() == 0) return;
  const Layout a = layout(self), b = layout(other);
  if (!is_dense(self.shape(), a.strides) || !is_dense(other.shape(), b.strides)) return;
  const int64_t a_end = a.offset + self.numel(), b_end = b.offset + other.numel();
  const bool apart = a_end <= b.offset || b_end <= a.offset;
  const bool same = a.offset == b.offset && a_end == b_end &&
                    telling_strides(self.shape(), a.strides) == telling_strides(other.shape(), b.strides);
  SMOLDER_CHECK(apart || same, RuntimeError,
                "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
                "memory location. Please clone() the tensor before performing the operation.");
}

Snapshots::Snapshots(std::span<const Operand> operands, Kind kind) {
  for (const Operand& o : operands) {
    if (o.kind() != Operand::kTensor || !o.impl()->value->external) continue;
    ValueRef now = kind == kLent ? lent_value(o.impl()) : value_now(o.impl());
    swapped_.push_back({o.impl(), std::exchange(o.impl()->value, std::move(now))});
  }
}

Snapshots::~Snapshots() {
  for (Swapped& s : swapped_) {
    // Meanwhile the storage may have become private: then its owner has a value, and views will read again.
    if (owner_of(s.impl)->external) s.impl->value = std::move(s.stand_in);
  }
}

}  // namespace smolder::lazy
