// Convolutions of images and their gradients on a device.
#pragma once

#include <memory>
#include <vector>

#include "smolder/jit/library/library.h"

namespace smolder::jit::cuda {

class NativeDevice;

bool is_convolution(ir::Op op);
/// Products of matrices whose columns are found in the image as they are needed. Halves are summed in float32.
std::unique_ptr<BoundLibrary> make_convolution(NativeDevice& device, ir::Op op, const std::vector<LibraryView>& inputs,
                                               const LibraryView& out, const std::vector<int64_t>& attrs);

}  // namespace smolder::jit::cuda
