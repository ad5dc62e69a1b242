#include "smolder/autograd/saved.h"

#include <atomic>
#include <utility>

#include "smolder/core/per_thread.h"
#include "smolder/lazy/batch.h"
#include "smolder/lazy/record.h"
#include "smolder/lazy/storage.h"
#include "smolder/lazy/view.h"

namespace smolder::autograd {
namespace {

using SavedHooks = std::vector<std::shared_ptr<SavedTensorHooks>>;
const PerThread<SavedHooks> hooks_of_thread;
thread_local bool t_has_hooks = false;  // which each op asks

/// Returns those before.
SavedHooks set_hooks(SavedHooks hooks) {
  t_has_hooks = !hooks.empty();
  return std::exchange(*hooks_of_thread, std::move(hooks));
}

std::atomic<bool> g_version_checks{false};

void check_version(const SavedTensor& saved, const Edge& edge) {
  const SavedExtra& extra = *saved.extra;
  const uint32_t now = *extra.version_now;
  if (now == extra.version) return;
  const ir::Meta& meta = *saved.value->meta;
  std::string origin;
  if (edge.node) origin = ", which is output " + std::to_string(edge.output) + " of " + edge.node->name();
  raise<RuntimeError>(
      "one of the variables needed for gradient computation has been modified by an inplace operation: [smolder.",
      type_name(meta.dtype), " ", meta.shape, "]", origin, ", is at version ", now, "; expected version ",
      extra.version,
      " instead. Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
      "smolder.autograd.set_detect_anomaly(True).");
}

/// Who holds the storage of `impl`.
lazy::TensorImpl* root_of(lazy::TensorImpl* impl) {
  while (impl->base) impl = impl->base;
  return impl;
}

/// Notes which write of the storage of `impl` a saved value is of.
void note_version(SavedTensor& saved, lazy::TensorImpl* impl, uint32_t writes_to_come) {
  lazy::TensorImpl* const root = root_of(impl);
  std::shared_ptr<uint32_t>& cell = meta_of(root).version;
  if (!cell) cell = std::make_shared<uint32_t>(root->writes());
  saved.extra = std::make_shared<SavedExtra>();
  saved.extra->version_now = cell;
  saved.extra->version = root->writes() + writes_to_come;
}

/// An in-place op is about to put `from` into `impl`: what the op saved of its result is what is written now, and
/// what it saved of `impl` itself is its own to overwrite.
void on_write(lazy::TensorImpl* impl, lazy::TensorImpl* from) {
  // A view of what must not be written is no way to write it.
  for (lazy::TensorImpl* at = impl; at && lazy::grad_enabled(); at = at->detached ? nullptr : at->base) {
    if (!at->autograd || !at->requires_grad) continue;
    const std::string& why = meta_of(at).forbidden_write;
    SMOLDER_CHECK(why.empty(), RuntimeError, why);
  }
  if (!from->autograd) return;
  const std::shared_ptr<Node>& node = meta_of(from).grad_fn.node;
  if (!node) return;
  const auto& cell = meta_of(root_of(impl)).version;
  if (!node->saved_inputs.empty()) {
    SavedTensor& self = node->saved_inputs[0];
    if (self.extra && self.extra->version_now == cell) self.extra = nullptr;
  }
  for (SavedTensor& s : node->saved_outputs) {
    if (s.extra && s.extra->version_now) note_version(s, impl, 1);
  }
}

void on_written(lazy::TensorImpl* owner) {
  if (!owner->autograd) return;
  if (const auto& cell = meta_of(owner).version) *cell = owner->writes();
}

/// The value that hooks give back for a packed one.
lazy::ValueRef unpack_value(const SavedExtra& extra) {
  const lazy::GradMode none(false);
  const Tensor t = extra.hooks->unpack(extra.packed.get());
  lazy::refresh(t.impl());
  SMOLDER_CHECK(t.shape() == extra.meta->shape && t.dtype() == extra.meta->dtype, RuntimeError,
                "unpack_hook returned a tensor of shape ", t.shape(), " and type ", name(t.dtype()),
                "; what was packed had shape ", extra.meta->shape, " and type ", name(extra.meta->dtype));
  return lazy::value_now(t.impl());
}

}  // namespace

std::string_view type_name(DType t) {
  switch (t) {
    case DType::kBool:
      return "BoolTensor";
    case DType::kUInt8:
      return "ByteTensor";
    case DType::kInt8:
      return "CharTensor";
    case DType::kInt16:
      return "ShortTensor";
    case DType::kInt32:
      return "IntTensor";
    case DType::kInt64:
      return "LongTensor";
    case DType::kFloat16:
      return "HalfTensor";
    case DType::kBFloat16:
      return "BFloat16Tensor";
    case DType::kFloat32:
      return "FloatTensor";
    case DType::kFloat64:
      return "DoubleTensor";
    case DType::kComplex64:
      return "ComplexFloatTensor";
    case DType::kComplex128:
      return "ComplexDoubleTensor";
  }
  return "Tensor";
}

void push_saved_tensor_hooks(std::shared_ptr<SavedTensorHooks> hooks) {
  hooks_of_thread->push_back(std::move(hooks));
  t_has_hooks = true;
}

void pop_saved_tensor_hooks() {
  hooks_of_thread->pop_back();
  t_has_hooks = !hooks_of_thread->empty();
}

bool any_saved_tensor_hooks() { return t_has_hooks; }
bool version_checks() { return g_version_checks.load(std::memory_order_relaxed); }
void set_version_checks(bool on) {
  g_version_checks.store(on, std::memory_order_relaxed);
  if (on) watch_writes();  // for good: what was saved is checked until it is used
}

void watch_writes() { lazy::set_write_hooks({&on_write, &on_written}); }

namespace {

/// The value of an element of a batch with the history that all of them have outside, as a write would change both.
lazy::ValueRef kept_elements(const lazy::BatchedValue& value) {
  const Tensor& all = value.elements;
  lazy::refresh(all.impl());
  SavedTensor kept{lazy::value_now(all.impl()), gradient_edge(all), -1, nullptr};
  if (kept.value->batched) kept.value = kept_elements(static_cast<const lazy::BatchedValue&>(*kept.value));
  return lazy::rebatched(value, unpack(kept, nullptr));
}

}  // namespace

SavedTensor save(lazy::TensorImpl* impl, Edge edge, int own_output) {
  SMOLDER_CHECK(
      !impl->inference, RuntimeError,
      "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
      "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and "
      "use it in autograd, or use `smolder.no_grad()` instead of `smolder.inference_mode()`.");
  SavedTensor out{lazy::value_now(impl), std::move(edge), own_output, nullptr};
  if (const lazy::BatchedValue* const b = lazy::batched(impl)) [[unlikely]]
    out.value = kept_elements(*b);
  if (t_has_hooks && hooks_of_thread->back()) {
    out.extra = std::make_shared<SavedExtra>();
    out.extra->meta = impl->value->meta;
    const lazy::GradMode none(false);
    // Hooks that save values for a gradient of their own would pack those without end.
    const SavedHooks hooks = set_hooks({});
    try {
      out.extra->packed = hooks.back()->pack(Tensor(new lazy::TensorImpl(out.value)));
    } catch (...) {
      set_hooks(hooks);
      throw;
    }
    set_hooks(hooks);
    out.extra->hooks = hooks.back();
    out.value.reset();
  } else if (version_checks()) {
    note_version(out, impl, 0);
  }
  return out;
}

Tensor unpack(const SavedTensor& saved, const std::shared_ptr<Node>& owner) {
  if (!saved.holds()) return {};
  const Edge edge = saved.own_output >= 0 ? Edge{owner, static_cast<uint32_t>(saved.own_output)} : saved.edge;
  if (saved.value && saved.extra) check_version(saved, edge);
  Tensor t(new lazy::TensorImpl(saved.value ? saved.value : unpack_value(*saved.extra)));
  if (!edge.node) return t;
  t.impl()->requires_grad = true;
  TensorMeta& meta = meta_of(t.impl());
  if (edge.node->leaf.defined()) {
    meta.accumulator = edge.node;
  } else {
    meta.grad_fn = edge;
  }
  return t;
}

}  // namespace smolder::autograd
