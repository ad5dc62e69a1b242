// The graph: a step as a list of nodes in program order, over ops or over primitives.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "smolder/core/device.h"
#include "smolder/core/dtype.h"
#include "smolder/ir/op.h"
#include "smolder/ir/sym.h"

namespace smolder::ir {

using ValueId = uint32_t;
using NodeId = uint32_t;
inline constexpr uint32_t kNone = ~0u;

/// The user's line and op that a node came from.
struct Origin {
  uint32_t source = 0;   ///< source line token of the record; 0 unknown (core/source_line.h)
  std::optional<Op> op;  ///< the op recorded; empty: the node's own
};

/// One op or primitive applied to values. Attributes are the flat words that the op's signature
/// encodes (see attrs.h); words that are sizes carry their symbolic expression.
struct Node {
  Op op;
  uint16_t num_outputs = 1;
  ValueId first_output = kNone;
  std::vector<ValueId> inputs;
  std::vector<Dim> attrs;
  Origin origin;

  Op origin_op() const { return origin.op.value_or(op); }
};

/// The facts known of a value without computing it.
struct ValueInfo {
  NodeId node;
  DType dtype;
  /// A Python number: converts straight to the compute type of the op that reads it.
  bool weak = false;
  SymDims shape;
};

/// A directed acyclic graph in topological (program) order. Append-only: passes rewrite by building
/// a new graph. Leaves are `leaf` nodes, run-time numbers are `parameter` nodes.
class Graph {
 public:
  SymTable sym;
  std::vector<Node> nodes;
  std::vector<ValueInfo> values;
  /// Values that must be produced, in the order the caller will bind them.
  std::vector<ValueId> outputs;

  /// Appends a node whose outputs have the given metadata; returns its first value.
  ValueId append(Op op, std::vector<ValueId> inputs, std::vector<Dim> attrs, std::span<const ValueInfo> outputs,
                 Origin origin = {});

  const ValueInfo& info(ValueId v) const { return values[v]; }
  const SymDims& shape(ValueId v) const { return values[v].shape; }
  DType dtype(ValueId v) const { return values[v].dtype; }
  const Node& producer(ValueId v) const { return nodes[values[v].node]; }
  Op op(ValueId v) const { return producer(v).op; }
};

/// Text form, one node a line: `%3 = add(%1, %2) : float32[s0, 64]`. `parse` is its inverse.
std::string print(const Graph& g);
/// Throws ValueError with line and column on malformed text.
Graph parse(std::string_view text);
/// Checks order, arity, dtypes and shapes of every node against its op's rule. Throws InternalError.
void verify(const Graph& g);

}  // namespace smolder::ir
