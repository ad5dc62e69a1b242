// Copies between strided tensors, shared by the CPU kernels.
#pragma once

#include "smolder/core/buffer.h"
#include "smolder/core/scalar.h"
#include "smolder/eager/dispatcher.h"

namespace smolder::eager::cpu {

/// Copies the elements of `from` in row-major order to those of `to`. Equal dtypes and numbers of elements. Does
/// nothing where they are the same row-major memory.
void copy(const TensorView& from, const TensorView& to);
/// Fills with a number converted to the dtype.
void fill(const TensorView& to, Scalar v);

/// `v`, or a row-major copy of it that `holder` keeps.
TensorView contiguous(const TensorView& v, BufferRef& holder);

/// The part of `v` that has `extent` elements of `axis` from `start` on.
TensorView part(TensorView v, int axis, int64_t start, int64_t extent);

}  // namespace smolder::eager::cpu
