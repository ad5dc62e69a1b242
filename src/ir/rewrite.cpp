#include "smolder/ir/rewrite.h"

#include "smolder/core/error.h"

namespace smolder::ir {

Rewriter::Rewriter(const Graph& from) : from_(from), now_(from.values.size(), kNone) {
  to_.sym = from.sym;
  to_.nodes.reserve(from.nodes.size());
  to_.values.reserve(from.values.size());
}

std::vector<ValueId> Rewriter::inputs(const Node& n) const {
  std::vector<ValueId> out = n.inputs;
  for (ValueId& x : out) {
    const ValueId old = x;
    x = now(old);
    SMOLDER_CHECK(x != kNone || old == kNone, InternalError, "internal error: a rewrite left out %", old, ", which `",
                  name(n.op), "` reads");
  }
  return out;
}

void Rewriter::set_results(const Node& n, ValueId first) {
  for (uint32_t k = 0; k < n.num_outputs; ++k) now_[n.first_output + k] = first + k;
}

ValueId Rewriter::append(const Node& n, std::vector<ValueId> inputs) {
  return to_.append(n.op, std::move(inputs), n.attrs, results(n), n.origin);
}

ValueId Rewriter::copy(const Node& n, std::vector<ValueId> inputs) {
  const ValueId first = append(n, std::move(inputs));
  set_results(n, first);
  return first;
}

Graph Rewriter::finish() {
  std::vector<ValueId> outputs;
  outputs.reserve(from_.outputs.size());
  for (const ValueId v : from_.outputs) outputs.push_back(now(v));
  return finish(std::move(outputs));
}

Graph Rewriter::finish(std::vector<ValueId> outputs) {
  to_.outputs = std::move(outputs);
  return std::move(to_);
}

std::vector<bool> live_nodes(const Graph& g) {
  std::vector<bool> live(g.nodes.size(), false);
  for (const ValueId v : g.outputs) live[g.info(v).node] = true;
  for (size_t i = g.nodes.size(); i-- > 0;) {
    if (info(g.nodes[i].op).flags.effect) live[i] = true;
    if (!live[i]) continue;
    for (const ValueId x : g.nodes[i].inputs) {
      if (x != kNone) live[g.info(x).node] = true;
    }
  }
  return live;
}

Graph without_dead_code(const Graph& g) {
  const std::vector<bool> live = live_nodes(g);
  return rewrite(g, [&](Rewriter& r, const Node& n) { return !live[r.index(n)]; });
}

}  // namespace smolder::ir
