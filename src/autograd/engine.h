// Differentiation of recorded ops.
#pragma once

#include <vector>

#include "smolder/lazy/tensor.h"

namespace smolder::autograd {

/// Adds the gradients of `tensors` (weighted by `grad_tensors`; an undefined one counts as 1 for a
/// one-element tensor) to the `grad` of every leaf they came from. Throws RuntimeError when a tensor has no
/// history, or its graph has been freed by an earlier backward without `retain_graph`.
/// As torch.autograd.backward.
void backward(const std::vector<Tensor>& tensors, const std::vector<Tensor>& grad_tensors = {},
              bool retain_graph = false, bool create_graph = false);

/// Gradients of `outputs` with respect to `inputs`; nothing is accumulated. An input that was not used
/// is an error, or an undefined tensor with `allow_unused`. As torch.autograd.grad.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& grad_outputs = {}, bool retain_graph = false,
                         bool create_graph = false, bool allow_unused = false);

}  // namespace smolder::autograd
