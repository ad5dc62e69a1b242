// Control flow: ops that run graphs. A graph is registered once and named by its number, which is an attribute of the
// ops that run it, so it is in every key that they are in.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "smolder/ir/graph.h"

namespace smolder::ir {

/// A graph that control flow runs. Its leaves are the op's tensors by number, all of them, whether it reads them or
/// not; its parameters are some of the op's numbers.
struct Subgraph {
  Graph graph;
  std::vector<int64_t> symbols;  ///< the sizes it is run at, by symbol
  std::string structure;         ///< what graphs that differ in sizes alone have in common
  std::vector<Meta> leaves;      ///< by number
  std::vector<Meta> results;
  std::vector<uint32_t> parameters;  ///< the numbers that it reads, ascending
  std::vector<Category> categories;  ///< of these
};

/// The number of the subgraph with this key, which `make` makes when there is none. Subgraphs live for ever, as the ops
/// of users do. Thread-safe, as everything here.
int64_t intern_subgraph(const std::string& key, const std::function<Subgraph()>& make);
/// Throws ValueError when there is none of that number.
const Subgraph& subgraph(int64_t number);

/// The kinds of control flow, by what they do with their graphs:
///   cond        tensors [predicate, operands...]; the graph taken gets the operands
///   while_loop  tensors [carried..., others...]; both graphs get all, the body gives the next carried
///   while_grad  the gradients of a while_loop: tensors [carried..., others..., gradients..., sums...]; the loop runs
///               again, then the third graph, which gets all, gives the next gradients and sums, turn by turn from the
///               last
///   scan        tensors [carried..., scanned..., others...]; the graph gets carried, a slice of each scanned, others,
///   and
///               gives the next carried and slices of the other results
/// then numbers.
enum class ControlKind : uint8_t { kCond, kWhileLoop, kWhileGrad, kScan };

/// Attributes of a call, as words and read.
struct CondAttrs {
  int64_t true_graph = 0, false_graph = 0, tensors = 0;  ///< tensors: how many operands are none of the numbers
  std::vector<int64_t> words() const { return {true_graph, false_graph, tensors}; }
  static CondAttrs read(std::span<const int64_t> w) { return {w[0], w[1], w[2]}; }
};
struct WhileAttrs {
  int64_t cond_graph = 0, body_graph = 0, tensors = 0, carried = 0;
  int64_t draws = 0;  ///< how far a turn moves the offsets of its random numbers
  std::vector<int64_t> words() const { return {cond_graph, body_graph, tensors, carried, draws}; }
  static WhileAttrs read(std::span<const int64_t> w) { return {w[0], w[1], w[2], w[3], w[4]}; }
};
struct WhileGradAttrs {
  WhileAttrs loop;  ///< its tensors are those of this op
  int64_t graph = 0, gradients = 0, sums = 0;
  std::vector<int64_t> words() const {
    std::vector<int64_t> w = loop.words();
    w.insert(w.end(), {graph, gradients, sums});
    return w;
  }
  static WhileGradAttrs read(std::span<const int64_t> w) { return {WhileAttrs::read(w), w[5], w[6], w[7]}; }
  int64_t of_loop() const { return loop.tensors - gradients - sums; }  ///< tensors that the loop reads
};
struct ScanAttrs {
  int64_t graph = 0, tensors = 0, carried = 0, scanned = 0;
  bool reverse = false;
  int64_t draws = 0;  ///< the same, negative where turns are counted from the last
  std::vector<int64_t> words() const { return {graph, tensors, carried, scanned, reverse, draws}; }
  static ScanAttrs read(std::span<const int64_t> w) { return {w[0], w[1], w[2], w[3], w[4] != 0, w[5]}; }
};

/// Most results of such an op.
inline constexpr int kMaxControlResults = 255;

/// The op of a kind with so many results, registered at its first use: "smolder::cond_2". Throws NotImplementedError
/// when there are none, or too many.
Op control_op(ControlKind kind, size_t results);
bool is_control_flow(Op op);
ControlKind control_kind(Op op);
/// Called for each op when it is registered, and for those that were before.
void on_control_op(std::function<void(Op)> hook);
/// The kind of a name, or nothing.
std::optional<Op> find_control_op(std::string_view name);

/// The operands, of one of these ops or of others, that a generator gave: the numbers of a seed and its offset.
struct DrawnNumbers {
  uint32_t seed = 0, offset = 0;
};
std::vector<DrawnNumbers> drawn_numbers(Op op, std::span<const int64_t> attrs);
/// Which of the words of such an op are numbers of graphs.
std::span<const size_t> graph_words(Op op);
/// The graphs that a call of control flow runs, and how many of its operands are tensors.
struct ControlGraphs {
  std::vector<int64_t> graphs;
  int64_t tensors = 0;
};
ControlGraphs control_graphs(Op op, std::span<const int64_t> attrs);
/// The categories of a subgraph's numbers, by parameter.
std::vector<DrawnNumbers> drawn_numbers(const Subgraph& s);

}  // namespace smolder::ir
