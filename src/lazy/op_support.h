// What user functions of the op table are written with, beside other ops.
#pragma once

#include <string_view>

#include "smolder/core/scalar.h"
#include "smolder/lazy/strides.h"
#include "smolder/lazy/tensor.h"

namespace smolder::lazy {

/// Key or value of grouped-query attention with its heads repeated to those of `query` (dimension -3).
Tensor repeat_heads(const Tensor& x, const Tensor& query);
/// attention() after broadcasting the leading dimensions of its operands.
Tensor attention_broadcast(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& attn_mask,
                           double scale, bool is_causal);

/// The dtype that the elements of all of them convert to.
DType result_type(TensorList tensors);
/// Throws RuntimeError, as torch does, when `dtype` holds no number like `value`: an integer out of its range, a
/// float that would become infinite or be cut to such an integer. A negative integer is let wrap in uint8.
void check_fits(Scalar value, DType dtype);

/// Throws RuntimeError when a gradient of `x` is asked for; for operands that a row has no formula for.
void check_no_gradient(std::string_view op, std::string_view name, const Tensor& x);

}  // namespace smolder::lazy
