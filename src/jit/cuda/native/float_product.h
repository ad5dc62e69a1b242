// Products of small matrices of floats on a device, which cuBLASLt takes longer for.
#pragma once

#include <memory>

#include "smolder/jit/library/product_steps.h"

namespace smolder::jit::cuda {

class NativeDevice;

/// Null where product_tiles.def does not say that kernels of our own are faster, which follows from sizes, dtypes and
/// `precision()` alone. Halves and float32 are summed in float32. What the operands' strides are changes no bit.
std::unique_ptr<BoundLibrary> make_float_product(NativeDevice& device, const ProductSteps& steps);

}  // namespace smolder::jit::cuda
