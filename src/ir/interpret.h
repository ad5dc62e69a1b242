// The reference interpreter: what a graph means, as slowly and plainly as it can be said. Tests compare every
// other way of running a graph with it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "smolder/ir/graph.h"
#include "smolder/ir/plain_tensor.h"

namespace smolder::ir {

/// Runs a graph of ops, of primitives, or mixed, and returns its outputs. `leaves` and `parameters` are indexed by
/// number (a leaf's strides and offset do not matter here); sizes are those of the sample, or those that `symbols`
/// gives.
///
/// Floats are computed in double by libm, each value rounded to its dtype; sums are kept in double until they are
/// complete. Out-of-range indices are clamped where read, and writes to them dropped. Throws ValueError when a leaf
/// is not what the graph says.
std::vector<PlainTensor> interpret(const Graph& g, std::span<const PlainTensor> leaves,
                                   std::span<const uint64_t> parameters = {}, std::span<const int64_t> symbols = {});

/// The outputs of one op or primitive. Inputs are as its signature lists them, null where an optional one is absent.
std::vector<PlainTensor> interpret(Op op, std::span<const PlainTensor* const> inputs, std::span<const int64_t> attrs);

}  // namespace smolder::ir
