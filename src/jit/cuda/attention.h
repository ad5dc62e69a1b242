// Attention in plans on CUDA: kept whole where our kernels take it, so that no scores are in memory.
#pragma once

#include <memory>
#include <vector>

#include "smolder/ir/builder.h"
#include "smolder/jit/library/library.h"

namespace smolder::jit::cuda {

/// Whether the kernels take the node: `attention` or its backward in a half precision or float32, with rows of at most
/// 128 elements and no mask of numbers whose gradient is read, on a device of compute capability 8.0 or later; of
/// float32, where queries are not few and, of a backward without TensorFloat32, keys not many. Guards what that says
/// about sizes.
bool takes_attention(int device, ir::Graph& g, const ir::Node& n, bool mask_has_gradient, bool allow_tf32);
/// Appends the node as one call and its results to `results`. With `rows_first` results lie as [..., L, heads, E].
void append_attention(ir::Builder& b, ir::Graph& g, const ir::Node& n, bool rows_first, ir::ValueId* results);

/// Binds an op that `append_attention` appended.
std::unique_ptr<BoundLibrary> bind_attention(int device, ir::Op op, const std::vector<LibraryView>& inputs,
                                             const std::vector<LibraryView>& outputs,
                                             const std::vector<int64_t>& attrs);

}  // namespace smolder::jit::cuda
