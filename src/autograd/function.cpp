#include "smolder/autograd/function.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>

#include "smolder/autograd/saved.h"
#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/storage.h"
#include "smolder/lazy/view.h"

namespace smolder::autograd {
namespace {

bool holds(const std::vector<Tensor>& list, const Tensor& t) {
  return std::ranges::any_of(list, [&](const Tensor& x) { return x.defined() && x.impl() == t.impl(); });
}

}  // namespace

void FunctionContext::begin(std::vector<Tensor> inputs) {
  inputs_ = std::move(inputs);
  needs_.clear();
  is_tensor_.clear();
  for (const Tensor& t : inputs_) {
    if (t.defined()) lazy::refresh(t.impl());
    is_tensor_.push_back(t.defined());
    needs_.push_back(t.defined() && t.requires_grad());
  }
}

void FunctionContext::finish(const std::string& name, std::shared_ptr<CustomFunction> function,
                             std::vector<Tensor>& outputs) {
  for (const Tensor& t : dirty_) {
    SMOLDER_CHECK(holds(outputs, t), RuntimeError,
                  "Some elements marked as dirty during the forward method were not returned as output. The inputs "
                  "that are modified inplace must all be outputs of the Function.");
  }
  std::shared_ptr<Node> node;
  if (lazy::grad_enabled() && !lazy::inference_mode_enabled() &&
      std::ranges::any_of(needs_, [](bool b) { return b; })) {
    node = new_node(std::move(function));
    node_ = node;
    for (const Tensor& t : inputs_) {
      if (!t.defined()) continue;
      node->next.push_back(gradient_edge(t));
      node->inputs.push_back(t.impl()->value->meta);
    }
    for (const Tensor& t : outputs) {
      if (t.defined()) lazy::refresh(t.impl());
      node->outputs.push_back(t.defined() ? t.impl()->value->meta : nullptr);
    }
  }
  const std::vector<Tensor> given = outputs;
  for (uint32_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].defined()) outputs[i] = with_history(name, outputs[i], i, node);
  }
  if (node) {
    for (const Tensor& t : to_save_) {
      if (!t.defined()) {
        saved_.emplace_back();
        continue;
      }
      lazy::refresh(t.impl());
      const auto at = std::ranges::find_if(given, [&](const Tensor& o) { return o.defined() && o.impl() == t.impl(); });
      const bool own = at != given.end() && !(holds(inputs_, t) && !holds(dirty_, t));
      if (own) {
        const auto number = static_cast<int>(at - given.begin());
        const Tensor& output = outputs[number];
        saved_.push_back(output.requires_grad() ? save(output.impl(), {}, number) : save(output.impl(), {}));
      } else {
        saved_.push_back(save(t.impl(), gradient_edge(t)));
      }
    }
  }
  inputs_.clear();
  to_save_.clear();
  dirty_.clear();
  non_differentiable_.clear();
}

Tensor FunctionContext::with_history(const std::string& name, const Tensor& output, uint32_t number,
                                     const std::shared_ptr<Node>& node) {
  const bool dirty = holds(dirty_, output);
  const bool input = holds(inputs_, output);
  const bool differentiable = node && is_differentiable(output.dtype()) && !holds(non_differentiable_, output);
  if (dirty) {
    SMOLDER_CHECK(!(node && output.requires_grad() && output.is_leaf()), RuntimeError,
                  "a leaf Variable that requires grad has been used in an in-place operation.");
    if (!differentiable) return output;
    // Written as any in-place op writes, so that a view's base takes over the history.
    Tensor written(new lazy::TensorImpl(lazy::value_now(output.impl())));
    written.impl()->requires_grad = true;
    meta_of(written.impl()).grad_fn = {node, number};
    lazy::assign(output, written);
    return output;
  }
  // A result that is an argument or a view of something has a history of its own on the same storage.
  const bool shares = input || (output.impl()->base && !output.impl()->detached);
  if (!shares && !node) return output;
  Tensor out = shares ? lazy::alias(output) : output;
  if (!differentiable) {
    if (shares || (node && output.requires_grad())) out = lazy::alias(output);
    return out;
  }
  out.impl()->requires_grad = true;
  TensorMeta& meta = meta_of(out.impl());
  meta.grad_fn = {node, number};
  if (shares) {
    watch_writes();
    meta.forbidden_write =
        "Output " + std::to_string(number) + " of " + name +
        " is a view and is being modified inplace. This view was created inside a custom Function (or because an input "
        "was returned as-is) and the autograd logic to handle view+inplace would override the custom backward "
        "associated with the custom Function, leading to incorrect gradients. This behavior is forbidden. You can fix "
        "this by cloning the output of the custom Function.";
  }
  return out;
}

std::vector<Tensor> FunctionContext::saved_tensors() const {
  const auto node = node_.lock();
  SMOLDER_CHECK(!released_, RuntimeError,
                "Trying to backward through the graph a second time (or directly access saved tensors after they have "
                "already been freed). Saved intermediate values of the graph are freed when you call .backward() or "
                "autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time "
                "or if you need to access saved tensors after calling backward.");
  std::vector<Tensor> out;
  for (const SavedTensor& s : saved_) out.push_back(unpack(s, node));
  return out;
}

std::vector<Tensor> FunctionContext::materialized(std::vector<Tensor> grads) const {
  const auto node = node_.lock();
  for (size_t i = 0; materialize_ && i < grads.size(); ++i) {
    const ir::Meta* const meta = node ? node->outputs[i] : nullptr;
    if (!grads[i].defined() && meta) grads[i] = full(meta->shape, Scalar(0.0), meta->dtype);
  }
  return grads;
}

std::vector<Tensor> FunctionContext::of_tensors(const std::string& name, std::vector<Tensor> grads) const {
  SMOLDER_CHECK(grads.size() == is_tensor_.size(), RuntimeError, "function ", name,
                " returned an incorrect number of gradients (expected ", is_tensor_.size(), ", got ", grads.size(),
                ")");
  std::vector<Tensor> out;
  for (size_t i = 0; i < grads.size(); ++i) {
    SMOLDER_CHECK(is_tensor_[i] || !grads[i].defined(), RuntimeError, "function ", name,
                  " returned a gradient different from None at position ", i + 1,
                  ", but the corresponding forward input was not a Variable");
    if (is_tensor_[i]) out.push_back(std::move(grads[i]));
  }
  return out;
}

void FunctionContext::release() {
  released_ = released_ || !saved_.empty();
  saved_.clear();
}

std::string short_name(const std::type_info& type) {
  int status = 0;
  char* const demangled = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  std::string out = status == 0 ? demangled : type.name();
  std::free(demangled);
  const size_t colon = out.rfind("::");
  return colon == std::string::npos ? out : out.substr(colon + 2);
}

}  // namespace smolder::autograd
