// Sums with a term for each turn of a loop that a program has unrolled.
#pragma once

#include <vector>

#include "smolder/jit/fuse/fuse_graph.h"

namespace smolder::jit {

/// Cuts sums of many alike terms, as gradients of weights that every turn of a loop used: kernels of a few lengths add
/// up any number of them, and a loop of one turn more has no kernel of its own. Sets what is kept apart, by value.
void cut_long_sums(const ir::Graph& g, const FuseGraph& graph, std::vector<bool>& apart);

}  // namespace smolder::jit
