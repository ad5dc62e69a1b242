// The reference interpreter: what a graph means, as slowly and plainly as it can be said. Tests compare every
// other way of running a graph with it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "smolder/core/dims.h"
#include "smolder/core/scalar.h"
#include "smolder/ir/graph.h"

namespace smolder::ir {

/// A tensor as plain numbers in row-major order, each a value of `dtype`.
struct PlainTensor {
  DType dtype = DType::kFloat32;
  Dims shape;
  std::vector<Scalar> elements;
  bool weak = false;  ///< a run-time number: one element, its category that of `dtype`

  /// Reads row-major memory of the dtype.
  static PlainTensor from_memory(const void* data, DType dtype, const Dims& shape);
  /// Writes numel(shape) elements, row-major.
  void to_memory(void* data) const;
};

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
