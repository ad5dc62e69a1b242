// Running sums, products and extremes along an axis on a device.
#pragma once

#include <memory>
#include <vector>

#include "smolder/jit/library/library.h"

namespace smolder::jit::cuda {

class NativeDevice;

/// scan. Floats are carried in float64, in an order that the shape decides.
std::unique_ptr<BoundLibrary> make_scan(NativeDevice& device, const LibraryView& x, const LibraryView& out,
                                        const std::vector<int64_t>& attrs);

}  // namespace smolder::jit::cuda
