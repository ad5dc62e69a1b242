// Products of matrices of integers or bools on a device.
#pragma once

#include <memory>

#include "smolder/jit/library/product_steps.h"

namespace smolder::jit::cuda {

class NativeDevice;

/// Integers wrap; bools are and'ed and or'ed. The dtype of operands and result is one.
std::unique_ptr<BoundLibrary> make_integer_product(NativeDevice& device, ProductSteps steps);

}  // namespace smolder::jit::cuda
