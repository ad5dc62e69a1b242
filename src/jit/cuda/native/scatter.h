// Writes at indices on a device. Those to one place happen in the order of the index: what has no such order of its own
// is sorted by place, and one thread writes each.
#pragma once

#include <memory>
#include <vector>

#include "smolder/jit/library/library.h"

namespace smolder::jit::cuda {

class NativeDevice;

/// index_add, index_set, scatter_add and scatter_into.
bool is_scatter(ir::Op op);
std::unique_ptr<BoundLibrary> make_scatter(NativeDevice& device, ir::Op op, const std::vector<LibraryView>& inputs,
                                           const LibraryView& out, const std::vector<int64_t>& attrs, bool guarded);
/// Looks at the index of one over an axis of `n`.
std::unique_ptr<BoundLibrary> make_index_check(NativeDevice& device, const LibraryView& index, int64_t n);

}  // namespace smolder::jit::cuda
