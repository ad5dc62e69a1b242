// The objects smolder.float32 and its like.
#pragma once

#include <array>

#include "src/casters.h"

namespace smolder::python {

/// The one of a dtype: whoever is given a dtype is given this, so that `x.dtype is smolder.float32`.
/// Functions that return it are bound with nb::rv_policy::reference.
inline PyDType* the_dtype(DType t) {
  static std::array<PyDType, kNumTensorDTypes> all = [] {
    std::array<PyDType, kNumTensorDTypes> out{};
    for (int i = 0; i < kNumTensorDTypes; ++i) out[i].value = static_cast<DType>(i);
    return out;
  }();
  return &all[static_cast<size_t>(t)];
}

}  // namespace smolder::python
