// The members of Tensor that concern gradients.
#include "smolder/autograd/engine.h"
#include "smolder/autograd/function.h"
#include "smolder/autograd/node.h"
#include "smolder/core/cuda/queue.h"
#include "smolder/lazy/record.h"
#include "smolder/lazy/view.h"

namespace smolder {
namespace autograd {
namespace {

/// A copy of `t` in the memory of another device.
Tensor moved(const Tensor& t, Device where) {
  BufferRef host = t.materialize("to");
  if (where.type == DeviceType::kCPU) return Tensor::from_buffer(std::move(host), t.shape(), t.dtype());
  const size_t bytes = static_cast<size_t>(t.numel()) * itemsize(t.dtype());
  BufferRef there = allocate(bytes, where);
  if (bytes) device_memory(where.type).from_host(there->data(), host->data(), bytes);
  return Tensor::from_buffer(std::move(there), t.shape(), t.dtype());
}

/// Its gradient goes back to where the value came from.
struct Move : Function<Move> {
  static Tensor forward(FunctionContext& ctx, const Tensor& t, Device where) {
    ctx.saved_data["from"] = t.device();
    return moved(t, where);
  }
  static std::vector<Tensor> backward(FunctionContext& ctx, const std::vector<Tensor>& grads) {
    return {grads[0].to(std::any_cast<Device>(ctx.saved_data["from"])), {}};
  }
};

}  // namespace
}  // namespace autograd

namespace {

autograd::TensorMeta* find(const Tensor& t) { return static_cast<autograd::TensorMeta*>(t.impl()->autograd.get()); }

}  // namespace

Tensor Tensor::to(Device where) const {
  SMOLDER_CHECK(where.type != DeviceType::kCUDA || where.index == cuda::kDevice, NotImplementedError, "device '",
                to_string(where), "' is not supported: tensors are on 'cpu' or 'cuda:", cuda::kDevice, "'");
  return device().type == where.type ? *this : autograd::Move::apply(*this, where);
}

Tensor& Tensor::requires_grad_(bool on) {
  SMOLDER_CHECK(!on || is_floating(dtype()), RuntimeError,
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
  const autograd::TensorMeta* const m = find(*this);
  if (!m) return {};
  return m->retained ? *m->retained : m->grad;
}

void Tensor::set_grad(const Tensor& g) {
  if (g.defined()) {
    SMOLDER_CHECK(g.impl() != impl_, RuntimeError, "can't assign Variable as its own grad");
    SMOLDER_CHECK(g.dtype() == dtype(), RuntimeError, "attempting to assign a gradient with dtype '", name(g.dtype()),
                  "' to a tensor with dtype '", name(dtype()),
                  "'. Please ensure that the gradient and the tensor have the "
                  "same dtype");
    SMOLDER_CHECK(g.shape() == shape(), RuntimeError, "attempting to assign a gradient of size '", g.shape(),
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
  SMOLDER_CHECK(!impl_->base || impl_->detached, RuntimeError, "Can't detach views in-place. Use detach() instead.");
  impl_->requires_grad = false;
  if (autograd::TensorMeta* const m = find(*this)) m->grad_fn = {};
  return *this;
}

}  // namespace smolder
