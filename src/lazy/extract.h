// From recorded ops to nodes of a graph: the one walk, for all who make graphs of traces.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "smolder/ir/builder.h"
#include "smolder/ir/graph.h"
#include "smolder/lazy/trace.h"

namespace smolder::lazy {

/// In what the graphs of a trace differ. Each is asked in the order of the trace: for an instruction the leaves that it
/// introduces, its numbers, its sizes.
struct Extraction {
  /// The value that a leaf is in the graph, by its number in the trace.
  std::function<ir::ValueId(uint32_t leaf)> leaf;
  /// The value that a run-time number is; `place` counts those of the trace.
  std::function<ir::ValueId(size_t place, Category category)> number;
  /// A size among attribute words, or a position.
  std::function<ir::Dim(int64_t)> size = [](int64_t value) { return ir::Dim(value); };
  std::function<ir::Dim(int64_t)> position = size;
  std::function<ir::Origin(const Instr&)> origin = [](const Instr& e) { return ir::Origin{e.source, e.op}; };
  /// By instruction: whether the graph has it. Empty: it has all.
  std::vector<bool> needed = {};
};

/// Appends the instructions of a trace to a graph; what its values became, by their number in the trace.
std::vector<ir::ValueId> extract(const Trace& t, ir::Graph& g, const Extraction& how);

/// The op-level graph of a trace with `produced` as outputs; with `constant_sizes` one without symbols.
ir::Graph to_graph(const Trace& t, std::span<const uint32_t> produced, bool constant_sizes = false);

/// A leaf for tensors of a dtype and shape. Complex ones are pairs of real and imaginary parts to graphs.
ir::ValueId leaf_of(ir::Builder& b, int number, DType dtype, ir::SymDims shape);

/// Attribute words as the graph has them: sizes and positions are what `size` and `position` make of them.
std::vector<ir::Dim> extract_attrs(ir::Op op, std::span<const int64_t> words,
                                   const std::function<ir::Dim(int64_t)>& size,
                                   const std::function<ir::Dim(int64_t)>& position);

/// By instruction: whether one of these values is computed of it.
std::vector<bool> needed_instructions(const Trace& t, std::span<const uint32_t> values);

}  // namespace smolder::lazy
