// The state of a Graph. Private to the layer, and to those that build graphs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "smolder/ir/graph.h"
#include "smolder/lazy/tensor.h"

namespace smolder {
class Graph;
}

namespace smolder::graph {

struct Weight {
  std::string name;
  Tensor tensor;  ///< undefined: not bound
};

class Runner;

/// Leaves are numbered: inputs, then weights. Numbers are `constant` nodes. Random ops take theirs from the generator
/// when the graph runs: seed and offset of draw d are the parameters 2d and 2d+1, and ops that have them in common draw
/// the same. A node's source is a number of `sources`, counted from 1. Immutable once in a Graph.
struct State {
  ir::Graph ir;
  std::vector<std::string> inputs, outputs, symbols, sources;
  std::vector<Weight> weights;
  std::string structure;
  /// Runs this graph; made by Graph's constructor, so never copied with a state.
  std::shared_ptr<Runner> runner;

  /// The leaf node's value by number, kNone where it is not there.
  std::vector<ir::ValueId> leaves() const;
  /// A size with the names of symbols: "2*batch".
  std::string size_text(const ir::Dim& d) const;
};

/// Wraps what was built or edited, once checked.
Graph make_graph(State state);

/// Checks the whole: ir::verify, numbering of leaves and draws, names, and that the graph holds at other sizes. Throws
/// ValueError naming the node.
void check(const State& s);

/// The text of a graph behind those that control flow in it runs, which are sections: "subgraph 0" and so on.
std::string print_nested(const ir::Graph& g);
/// Reads that, and registers the graphs inside. `blank`: a line break for each line of a file that is before it, for
/// the lines that errors name. Throws ValueError.
ir::Graph parse_nested(std::string_view text, std::string blank = {});

/// Checks a graph that control flow runs, which came of text. Throws ValueError.
void check_subgraph(const ir::Graph& g);

/// Values of symbols that a graph may be tried with: the sample's, then others that its guards allow.
std::vector<std::vector<int64_t>> trials(const ir::SymTable& sym);

/// A graph at certain sizes: attribute words by node and metadata by value.
struct Instance {
  std::vector<int64_t> exprs;  ///< evaluated
  std::vector<std::vector<int64_t>> words;
  std::vector<ir::Meta> metas;

  int64_t value(const ir::Dim& d) const { return ir::SymTable::value(d, exprs); }
};
/// Shapes by the ops' rules. Throws the rule's error with the node's name in front. `leaf_metas`: what leaves are like,
/// or empty.
Instance infer(const State& s, const std::vector<int64_t>& symbols);
/// "%3 (matmul)", with its source if known.
std::string node_name(const State& s, const ir::Node& n);

/// A size that is expressed already, and what it is for each assignment of symbols.
struct KnownSize {
  ir::Dim size;
  std::vector<int64_t> values;
};
/// The extents of a node's operands that vary, for `fit`; `extent(a, v, d)` is that of value v in assignment a.
std::vector<KnownSize> sizes_read(const State& s, const ir::Node& n, size_t assignments,
                                  const std::function<int64_t(size_t, ir::ValueId, int)>& extent);
/// Expresses `values`, one for each assignment of symbols, by the symbols (as Dims of `sym`) or by sizes nearby; empty
/// when no form of those that are tried fits them all.
std::optional<ir::Dim> fit(ir::SymTable& sym, const std::vector<ir::Dim>& symbols,
                           const std::vector<std::vector<int64_t>>& assignments, const std::vector<int64_t>& values,
                           const std::vector<KnownSize>& nearby = {});

/// Infers all shapes anew, and expresses them by the symbols.
void infer_shapes(State& s);

/// Records the ops of the graph with these inputs, weights as they are; the results. `like`: inferred at the inputs'
/// sizes.
std::vector<Tensor> record_ops(const State& s, const Instance& like, const std::vector<Tensor>& inputs,
                               const std::vector<Tensor>& weights);
/// The symbols' values that inputs of these shapes have. Throws what run() throws.
std::vector<int64_t> bind_symbols(const State& s, const std::vector<Tensor>& inputs);

/// Removes nodes that no output needs but leaves of inputs; how many.
int drop_dead(State& s);

std::string text_of(const State& s);
State parse_state(std::string_view text);

}  // namespace smolder::graph
