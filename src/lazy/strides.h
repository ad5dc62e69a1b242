// Strides, as torch has them, of views. Values here are always row-major; strides follow from the way from a
// view's base, and decide, as in torch, what shares storage and what is a copy.
#pragma once

#include <optional>

#include "smolder/lazy/tensor.h"

namespace smolder::lazy {

/// Where the elements of a tensor are, as if views were windows on their base.
Layout layout(const Tensor& t);
/// The layout of what `step` makes of its input, which has one, in shape `to`.
Layout layout_after(const ViewStep& step, Layout input, const Dims& to);
inline Dims strides(const Tensor& t) { return layout(t).strides; }
bool is_contiguous(const Tensor& t);
/// Whether `shape`, of as many elements, is a view of `t`: no dimension of it spans a gap.
bool can_view(const Tensor& t, const Dims& shape);

}  // namespace smolder::lazy
