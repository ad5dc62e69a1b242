// Movement primitives that need no kernel: the same memory seen under other extents and strides.
#pragma once

#include <optional>
#include <span>

#include "smolder/eager/dispatcher.h"

namespace smolder::eager {

/// Whether `op` (a primitive) may be a view: reshape, permute, expand, slice, flip and barrier.
bool is_view(ir::Op op);
/// The view that `op` makes of `in`, which has shape `out_shape`; empty when a reshape can't be had without a copy.
std::optional<TensorView> view_of(ir::Op op, const TensorView& in, std::span<const int64_t> attrs,
                                  const Dims& out_shape);

}  // namespace smolder::eager
