// Strides, as torch has them. Values here are always row-major; strides follow from the order of its dimensions that a
// base remembers and from the way from there to a view, and decide, as in torch, what shares storage and what is a
// copy.
#pragma once

#include <vector>

#include "smolder/lazy/tensor.h"

namespace smolder::lazy {

/// The steps that lead to `last`, and it; none when that is null.
std::vector<const ViewStep*> steps_in_order(const ViewStep* last);

/// Where the elements of a tensor are, as if views were windows on their base.
Layout layout(const Tensor& t);
/// The layout of what `step` makes of its input, which has one, in shape `to`.
Layout layout_after(const ViewStep& step, Layout input, const Dims& to);
inline Dims strides(const Tensor& t) { return layout(t).strides; }
/// Where the first element is among those of the base, which are in row-major order.
int64_t offset_in_value(const Tensor& t);
bool is_contiguous(const Tensor& t);
/// Whether elements fill a stretch of memory, in whatever order of the dimensions.
bool is_dense(const Dims& shape, const Dims& strides);
/// Strides of elements without gaps whose dimensions are in `order`, from the outermost on.
Dims strides_in_order(const Dims& shape, const Dims& order);
/// Whether `shape`, of as many elements, is a view of `t`: no dimension of it spans a gap.
bool can_view(const Tensor& t, const Dims& shape);

}  // namespace smolder::lazy
