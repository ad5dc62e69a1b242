// Graphs of recorded steps for Python, and the log that they come from.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "smolder/ir/graph.h"
#include "src/tensor.h"

namespace smolder::python {

/// The op-level graph of one step, with its sizes.
class ReplayGraph {
 public:
  using PlainMeta = std::tuple<std::string, std::vector<int64_t>>;
  /// Op, operands (-1: absent), attribute words, dtype and shape of a leaf or category of a number, source.
  using PlainNode = std::tuple<std::string, std::vector<int64_t>, std::vector<int64_t>, PlainMeta, uint32_t>;

  /// Takes nodes that parse_graph() gave, perhaps with other sizes: leaves in row-major order, numbers, and ops that
  /// users call. Sizes that a plan treats as symbols are symbols. Throws what the ops' rules throw.
  ReplayGraph(const std::vector<PlainNode>& nodes, const std::vector<int64_t>& outputs);

  ir::Graph graph;
  std::vector<int64_t> symbols;
  std::vector<ir::ValueId> leaves;
  std::vector<Category> numbers;

 private:
  ir::Dim symbol(int64_t size);
  void append(const PlainNode& plain);
  void append_leaf(const PlainMeta& meta);
  void append_number(const std::string& category);
};

/// `bool`, `int` or `float`.
const char* category_name(Category c);
nb::list dims_list(const Dims& shape);

/// A tensor of a buffer's elements, row-major.
Tensor tensor_of(BufferRef buffer, const Dims& shape, DType dtype);

/// Nodes of a graph: op, operands, words, results (dtype, shape, is it a number), source, attributes as text.
nb::list nodes_list(const ir::Graph& g);

/// Parses the text of a graph: its nodes, and the values that are its results. Throws ValueError.
nb::tuple parse_graph(const std::string& text);

/// The first difference of two steps, as smolder.recompiles() tells it; None where there is none.
nb::object first_difference(const ReplayGraph& now, const std::vector<uint8_t>& modes_now, const ReplayGraph& before,
                            const std::vector<uint8_t>& modes_before);

/// The log of recorded steps.
void bind_trace_log(nb::module_& m);

}  // namespace smolder::python
