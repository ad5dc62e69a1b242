// Differentiation of recorded ops.
#pragma once

#include <vector>

#include "smolder/lazy/tensor.h"

namespace smolder::autograd {

/// Adds the gradients of `tensors` (weighted by `grad_tensors`; an undefined one counts as 1 for a
/// one-element tensor) to the `grad` of every leaf they came from. Throws RuntimeError when a tensor has no
/// history, or its graph has been freed by an earlier backward without `retain_graph`.
/// With `inputs`, only these get gradients, be they leaves or not. As torch.autograd.backward.
void backward(const std::vector<Tensor>& tensors, const std::vector<Tensor>& grad_tensors = {},
              bool retain_graph = false, bool create_graph = false, const std::vector<Tensor>& inputs = {});

/// Gradients of `outputs` with respect to `inputs`; nothing is accumulated. An input that was not used
/// is an error, or an undefined tensor with `allow_unused`. As torch.autograd.grad. With `ends_at_inputs`, no gradient
/// flows from one input on to another that it was computed from.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& grad_outputs = {}, bool retain_graph = false,
                         bool create_graph = false, bool allow_unused = false, bool ends_at_inputs = false);

/// Number of the backward pass that this thread is in, for hooks; 0 outside.
uint64_t current_backward();
/// Whether that pass was asked for the gradients of some tensors alone.
bool backward_is_partial();
/// Whether that pass computes the gradient of `t`.
bool backward_reaches(const Tensor& t);

}  // namespace smolder::autograd
