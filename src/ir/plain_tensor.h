// Tensors of the reference interpreter.
#pragma once

#include <vector>

#include "smolder/core/dims.h"
#include "smolder/core/dtype.h"
#include "smolder/core/scalar.h"

namespace smolder::ir {

/// A tensor as plain numbers in row-major order, each a value of `dtype`.
struct PlainTensor {
  DType dtype = DType::kFloat32;
  Dims shape;
  std::vector<Scalar> elements;
  bool weak = false;  ///< a run-time number: one element, its category that of `dtype`

  /// Reads row-major memory of the dtype.
  static PlainTensor from_memory(const void* data, DType dtype, const Dims& shape);
  /// Writes numel(shape) elements, row-major.
  void to_memory(void* data) const;
};

}  // namespace smolder::ir
