// What Matmul::get chooses from. Descriptions are valid and not empty here.
#pragma once

#include <memory>

#include "smolder/eager/cpu/gemm.h"
#include "smolder/eager/cpu/matmul.h"

namespace smolder::eager {

/// float32 and the halves with T = float, float64 with T = double.
template <class T>
std::shared_ptr<const Matmul> make_float_matmul(const MatmulDesc& desc, const gemm::Kernels<T>& kernels);

/// bool, uint8, int32, int64.
std::shared_ptr<const Matmul> make_integer_matmul(const MatmulDesc& desc);

}  // namespace smolder::eager
