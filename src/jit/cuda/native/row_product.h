// Products of one row, or a few, by a matrix of floats: what a model does for a token, or an agent for a step.
#pragma once

#include <memory>

#include "smolder/jit/cuda/native/device.h"
#include "smolder/jit/library/product_steps.h"

namespace smolder::jit::cuda {

/// A product that takes as long as its larger operand takes to be read; null where it is none. Sizes, dtypes and
/// whether there is a bias decide that, and its bits; strides do not.
std::unique_ptr<BoundLibrary> make_row_product(NativeDevice& device, const ProductSteps& steps);

}  // namespace smolder::jit::cuda
