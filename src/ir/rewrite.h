// Building a graph anew: the one place where nodes of a graph are copied and get other numbers.
//
//   g = rewrite(g, [&](Rewriter& r, const Node& n) {
//     if (is_dead(n)) return true;                                    // nothing takes its place
//     if (n.op != Op::kRelu) return false;                            // copied as it is
//     const Value x = r.builder().wrap(r.now(n.inputs[0]));
//     r.set(n.first_output, maximum(x, 0.0).id);
//     return true;
//   });
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "smolder/ir/builder.h"
#include "smolder/ir/graph.h"

namespace smolder::ir {

/// Copies nodes of one graph to another, which has the same symbols, and knows what each old value became. Nodes may be
/// changed ones, or be copied in another order: what a node reads must have been copied, or set, before it.
class Rewriter {
 public:
  /// `from` must live as long.
  explicit Rewriter(const Graph& from);
  Rewriter(const Rewriter&) = delete;

  const Graph& from() const { return from_; }
  /// The new graph, and what adds to it.
  Graph& to() { return to_; }
  Builder& builder() { return builder_; }

  /// The number of one of the old graph's nodes.
  NodeId index(const Node& n) const { return static_cast<NodeId>(&n - from_.nodes.data()); }
  /// The new value of an old one: kNone where nothing took its place, and for kNone.
  ValueId now(ValueId old) const { return old == kNone ? kNone : now_[old]; }
  /// The new values of those that a node reads. Throws InternalError where nothing took the place of one.
  std::vector<ValueId> inputs(const Node& n) const;
  /// The facts known of the node's results, by result.
  std::span<const ValueInfo> results(const Node& n) const {
    return {from_.values.data() + n.first_output, n.num_outputs};
  }
  /// Where to write what the node's results become, by result.
  ValueId* now_of(const Node& n) { return now_.data() + n.first_output; }
  void set(ValueId old, ValueId fresh) { now_[old] = fresh; }
  /// The node's results become the new values that begin with `first`.
  void set_results(const Node& n, ValueId first);

  /// Adds a node like `n` that reads these new values; its first value. What results became stays as it is.
  ValueId append(const Node& n, std::vector<ValueId> inputs);
  /// Adds a copy of `n` that reads what its inputs became, or these; its results become the copy's.
  ValueId copy(const Node& n) { return copy(n, inputs(n)); }
  ValueId copy(const Node& n, std::vector<ValueId> inputs);

  /// The new graph, with what the outputs became as its outputs, or these.
  Graph finish();
  Graph finish(std::vector<ValueId> outputs);

 private:
  const Graph& from_;
  Graph to_;
  Builder builder_{to_};
  std::vector<ValueId> now_;  ///< by old value
};

/// Copies the nodes for which `replace(rewriter, node)` is false, in order. Where it is true, it has set what the
/// node's results became, or nothing reads them. What it adds by the rewriter's builder has the node's origin.
void rewrite_nodes(Rewriter& r, auto&& replace) {
  for (const Node& n : r.from().nodes) {
    r.builder().set_origin(n.origin);
    if (!replace(r, n)) r.copy(n);
  }
}

/// The graph that this comes to.
template <class Replace>
Graph rewrite(const Graph& from, Replace&& replace) {
  Rewriter r(from);
  rewrite_nodes(r, std::forward<Replace>(replace));
  return r.finish();
}

/// By node: whether an output needs it, or it has an effect.
std::vector<bool> live_nodes(const Graph& g);
/// The graph of its live nodes.
Graph without_dead_code(const Graph& g);

}  // namespace smolder::ir
