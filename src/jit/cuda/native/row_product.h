// Products of one row, or a few, by a matrix of floats: what a model does for a token, or an agent for a step.
#pragma once

#include <memory>

#include "smolder/jit/cuda/native/device.h"
#include "smolder/jit/library/product_steps.h"

namespace smolder::jit::cuda {

/// A product that takes as long as its larger operand takes to be read; null where it is none. By its sizes and dtypes
/// alone, as its bits are, not by how operands lie.
std::unique_ptr<BoundLibrary> make_row_product(NativeDevice& device, const ProductSteps& steps);

}  // namespace smolder::jit::cuda
