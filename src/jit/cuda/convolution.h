// Convolutions in plans on CUDA that cuDNN computes.
#pragma once

#include <memory>
#include <vector>

#include "smolder/jit/library/library.h"

namespace smolder::jit::cuda {

/// Null where cuDNN does not take it: `make_convolution` has kernels of our own.
std::unique_ptr<BoundLibrary> bind_convolution(int device, ir::Op op, const std::vector<LibraryView>& inputs,
                                               const LibraryView& out, const std::vector<int64_t>& attrs);

}  // namespace smolder::jit::cuda
