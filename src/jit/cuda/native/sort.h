// Stable sorts along an axis on a device.
#pragma once

#include <memory>
#include <vector>

#include "smolder/jit/library/library.h"

namespace smolder::jit::cuda {

class NativeDevice;

/// sorted: values and where they were. Throws NotImplementedError for rows of 2^32 elements.
std::unique_ptr<BoundLibrary> make_sorted(NativeDevice& device, const LibraryView& x,
                                          const std::vector<LibraryView>& outputs, const std::vector<int64_t>& attrs);

}  // namespace smolder::jit::cuda
