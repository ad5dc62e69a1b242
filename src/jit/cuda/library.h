// Steps of a plan on CUDA that are not generated kernels.
#pragma once

#include <memory>
#include <vector>

#include "smolder/jit/library.h"

namespace smolder::jit::cuda {

/// Products of floats go to cuBLASLt. All else runs on the host, between copies that wait for the device and are
/// counted (fallbacks.bytes_copied); so does a product whose operands cuBLASLt does not take as they lie.
std::unique_ptr<BoundLibrary> bind_library(ir::Op op, std::vector<LibraryView> inputs, std::vector<LibraryView> outputs,
                                           std::vector<int64_t> attrs);

}  // namespace smolder::jit::cuda
