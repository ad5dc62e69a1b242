// The members of Tensor that concern gradients.
#include <cstring>

#include "smolder/autograd/engine.h"
#include "smolder/autograd/function.h"
#include "smolder/autograd/hooks.h"
#include "smolder/autograd/node.h"
#include "smolder/autograd/sparse.h"
#include "smolder/core/cuda/driver.h"
#include "smolder/core/cuda/memory.h"
#include "smolder/core/memory_history.h"
#include "smolder/lazy/batch.h"
#include "smolder/lazy/capture.h"
#include "smolder/lazy/record.h"
#include "smolder/lazy/result_layout.h"
#include "smolder/lazy/storage.h"
#include "smolder/lazy/view.h"

namespace smolder {
namespace autograd {
namespace {

/// The elements in a row on the host, where they are if they can be read there.
eager::Array on_host(const Tensor& t) {
  if (t.device().type == DeviceType::kCPU && lazy::is_external(t)) {
    eager::Array elements = lazy::window(t);
    if (elements.is_contiguous()) return elements;
  }
  if (const lazy::Capture* const c = lazy::Capture::current(); c && c->is_constant(t.impl()->value.get())) [[unlikely]]
    return eager::Array::wrap(t.impl()->value->buffer, t.shape(), t.dtype());
  return eager::Array::wrap(t.materialize("to"), t.shape(), t.dtype());
}

/// The same from device to device, which both queue: the host goes on.
Tensor moved_to_peer(const Tensor& t, Device where) {
  const SourceToken source = capture_source();
  const lazy::Capture* const c = lazy::Capture::current();
  const bool is_constant = c && c->is_constant(t.impl()->value.get());
  const BufferRef from = is_constant ? t.impl()->value->buffer : lazy::elements(t, "to", source);
  const size_t bytes = static_cast<size_t>(t.numel()) * itemsize(t.dtype());
  const MemoryFor use("to", source);
  BufferRef there = allocate(bytes, where);
  if (bytes > 0) cuda::copy_to_peer(there->data(), where.index, from->data(), t.device().index, bytes);
  return Tensor::from_buffer(std::move(there), t.shape(), t.dtype());
}

/// A copy of `t` in the memory of another device. `goes_on`: before pinned memory was read.
Tensor moved(const Tensor& t, Device where, bool goes_on) {
  if (where == DeviceType::kCUDA && t.device() == DeviceType::kCUDA) return moved_to_peer(t, where);
  if (where.type == DeviceType::kCPU) return Tensor::from_buffer(t.materialize("to"), t.shape(), t.dtype());
  const eager::Array host = on_host(t);
  const MemoryFor use("to", capture_source());
  BufferRef there = allocate(host.bytes(), where);
  if (host.bytes() > 0 && where.type == DeviceType::kCUDA) {
    cuda::copy_from_host(there->data(), host.data, host.bytes(), where.index, goes_on);
  } else if (host.bytes() > 0) {
    copy_from_host(there->data(), host.data, host.bytes(), where);
  }
  return Tensor::from_buffer(std::move(there), t.shape(), t.dtype());
}

/// Its gradient goes back to where the value came from.
struct Move : Function<Move> {
  static Tensor forward(FunctionContext& ctx, const Tensor& t, Device where, bool goes_on) {
    ctx.saved_data["from"] = t.device();
    return lazy::lay_out_as(moved(t, where, goes_on), t);
  }
  static std::vector<Tensor> backward(FunctionContext& ctx, const std::vector<Tensor>& grads) {
    return {grads[0].to(std::any_cast<Device>(ctx.saved_data["from"])), {}, {}};
  }
};

/// A copy in pinned memory, which stays where it is as memory of others does.
struct Pin : Function<Pin> {
  static Tensor forward(FunctionContext&, const Tensor& t) {
    const eager::Array host = on_host(t);
    BufferRef pinned = cuda::allocate_pinned(host.bytes());
    if (host.bytes() > 0) std::memcpy(pinned->data(), host.data, host.bytes());
    return lazy::from_foreign(std::move(pinned), t.shape(), contiguous_strides(t.shape()), t.dtype());
  }
  static std::vector<Tensor> backward(FunctionContext&, const std::vector<Tensor>& grads) { return {grads[0]}; }
};

}  // namespace
}  // namespace autograd

namespace {

autograd::TensorMeta* find(const Tensor& t) { return static_cast<autograd::TensorMeta*>(t.impl()->autograd.get()); }

}  // namespace

bool Tensor::is_pinned() const {
  return device().type == DeviceType::kCPU && lazy::is_external(*this) && cuda::is_pinned(lazy::window(*this).data);
}

Tensor Tensor::pin_memory() const {
  SMOLDER_CHECK(device().type == DeviceType::kCPU, RuntimeError, "cannot pin '", to_string(device()),
                "': only dense CPU tensors can be pinned");
  return is_pinned() ? *this : autograd::Pin::apply(*this);
}

Tensor Tensor::to(Device where, bool non_blocking) const {
  if (where == DeviceType::kCUDA) cuda::check_ordinal(where.index);
  if (device() == where) return *this;
  if (!lazy::batched(impl_)) return autograd::Move::apply(*this, where, non_blocking);
  SMOLDER_CHECK(!impl_->requires_grad, NotImplementedError,
                "a gradient within vmap of a tensor that goes to another device there is not supported");
  return lazy::map_elements(*this, [&](const Tensor& all) { return all.to(where, non_blocking); });
}

Tensor& Tensor::requires_grad_(bool on) {
  SMOLDER_CHECK(!on || is_differentiable(dtype()), RuntimeError,
                "only Tensors of floating point dtype can require gradients, this one is ", name(dtype()));
  SMOLDER_CHECK(
      on || is_leaf(), RuntimeError,
      "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
      "subgraph that doesn't require differentiation use var_no_grad = var.detach().");
  SMOLDER_CHECK(!on || !impl_->inference || lazy::inference_mode_enabled(), RuntimeError,
                "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
  impl_->requires_grad = on;
  return *this;
}

bool Tensor::is_leaf() const {
  const autograd::TensorMeta* const m = find(*this);
  return !(impl_->requires_grad && m && m->grad_fn.node);
}

Tensor Tensor::grad() const {
  if (lazy::Capture* const c = lazy::Capture::current()) [[unlikely]]
    c->note_gradient();
  const autograd::TensorMeta* const m = find(*this);
  if (!m) return {};
  return m->retained ? *m->retained : m->grad;
}

void Tensor::set_grad(const Tensor& g) {
  if (lazy::Capture* const c = lazy::Capture::current()) [[unlikely]]
    c->note_gradient();
  if (g.defined()) {
    SMOLDER_CHECK(g.impl() != impl_, RuntimeError, "can't assign Variable as its own grad");
    SMOLDER_CHECK(g.dtype() == dtype(), RuntimeError, "attempting to assign a gradient with dtype '", name(g.dtype()),
                  "' to a tensor with dtype '", name(dtype()),
                  "'. Please ensure that the gradient and the tensor have the "
                  "same dtype");
    const Dims& size = autograd::whole_shape(g);
    SMOLDER_CHECK(size == shape(), RuntimeError, "attempting to assign a gradient of size '", size,
                  "' to a tensor of size '", shape(),
                  "'. Please ensure that the gradient and the tensor are the same size");
  }
  if (!impl_->autograd) impl_->autograd = std::make_unique<autograd::TensorMeta>();
  autograd::TensorMeta* const m = find(*this);
  (m->retained ? *m->retained : m->grad) = g;
}

void Tensor::backward(const Tensor& gradient, bool retain_graph, bool create_graph) const {
  autograd::backward({*this}, gradient.defined() ? std::vector<Tensor>{gradient} : std::vector<Tensor>{}, retain_graph,
                     create_graph);
}

Tensor Tensor::detach() const { return lazy::alias(*this); }

Tensor& Tensor::detach_() {
  if (impl_->base && !impl_->detached) {  // what is complex is a view of its pairs, which go with it
    const bool pairs = is_complex(dtype()) && !is_complex(Tensor(impl_->base).dtype()) && !impl_->base->base;
    SMOLDER_CHECK(pairs, RuntimeError, "Can't detach views in-place. Use detach() instead.");
    Tensor(impl_->base).detach_();
  }
  impl_->requires_grad = false;
  if (autograd::TensorMeta* const m = find(*this)) m->grad_fn = {};
  return *this;
}

}  // namespace smolder
