#include "smolder/jit/fuse_graph.h"

#include <algorithm>
#include <optional>

#include "smolder/jit/attributes.h"
#include "smolder/jit/fuse.h"
#include "smolder/jit/library.h"
#include "smolder/jit/view.h"

namespace smolder::jit {

using ir::NodeId;
using ir::Op;
using ir::SymDims;
using ir::ValueId;

namespace {

/// Are the elements of `from` each spread over trailing dims of `to`, and nothing else?
bool spreads_trailing(const SymDims& from, const SymDims& to) {
  const int lead = to.size() - from.size();
  bool spread = false;
  for (int i = 0; i < to.size(); ++i) {
    if (to[i].value == 1) continue;
    const bool kept = i >= lead && from[i - lead].value != 1;
    if (kept && spread) return false;
    spread = spread || !kept;
  }
  return true;
}

bool keeps_order(const ir::Graph& g, const ir::Node& n) {
  const SymDims& from = g.shape(n.inputs[0]);
  int64_t last = -1;
  for (const int64_t axis : axes_of(n)) {
    if (from[static_cast<int>(axis)].value == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

}  // namespace

Origin origin_of(const Program& p, ValueId v) {
  const ir::Graph& g = p.graph;
  EdgeKind kind = EdgeKind::kSame;
  const auto at_least = [&](EdgeKind k) { kind = std::max(kind, k); };
  for (;;) {
    const ir::Node& n = g.producer(v);
    if (!is_movement(n.op)) return {v, kind};
    switch (n.op) {
      case Op::kBarrier:
        at_least(EdgeKind::kHard);
        break;
      case Op::kExpand:
        at_least(spreads_trailing(g.shape(n.inputs[0]), g.shape(v)) ? EdgeKind::kSpread : EdgeKind::kMoved);
        break;
      case Op::kPermute:
        if (!keeps_order(g, n)) at_least(EdgeKind::kMoved);
        break;
      case Op::kReshape:
        break;
      default:
        at_least(EdgeKind::kMoved);
    }
    v = n.inputs[0];
  }
}

int64_t bytes_of(const ir::Graph& g, ValueId v) {
  return numel(g.shape(v).values()) * static_cast<int64_t>(itemsize(g.dtype(v)));
}

Space space_of(Program& p, NodeId node) {
  const Domain d = domain_of(p, node);
  Space s;
  s.extents = d.rows;
  s.reduces_columns = d.reduces_columns;
  s.reduces_rows = d.reduces_rows;
  s.column_chunk = d.column_chunk;
  s.row_chunk = d.row_chunk;
  if (d.reduces_columns || d.reduces_rows) s.split = static_cast<int>(d.rows.size());
  s.extents.insert(s.extents.end(), d.columns.begin(), d.columns.end());
  return s;
}

namespace {

class Build {
 public:
  explicit Build(Program& p) : p_(p), g_(p.graph) {}

  FuseGraph run() {
    const size_t n = g_.nodes.size();
    f_.live.assign(n, false);
    f_.computes.assign(n, false);
    f_.asked.assign(g_.values.size(), false);
    f_.in.resize(n);
    f_.out.resize(n);
    f_.leaf_reads.resize(n);
    for (const ValueId v : g_.outputs) ask(v);
    for (size_t i = n; i-- > 0;) {
      if (!f_.live[i]) continue;
      const ir::Node& node = g_.nodes[i];
      f_.computes[i] = computes(node);
      for (const ValueId x : node.inputs) {
        if (x == ir::kNone) continue;
        mark(x);
        if (is_library(node.op)) ask_operand(x);
      }
      if (node.op == Op::kBarrier) ask(node.inputs[0]);
    }
    for (NodeId i = 0; i < n; ++i) {
      if (f_.live[i] && f_.computes[i]) read(i);
    }
    return std::move(f_);
  }

 private:
  void mark(ValueId v) { f_.live[g_.info(v).node] = true; }

  bool computes(const ir::Node& n) const {
    if (n.op == Op::kLeaf) return false;
    return f_.asked[n.first_output] || (!is_number(g_, n.first_output) && !is_movement(n.op));
  }

  /// The value, or what it renames, must be in memory.
  void ask(ValueId v) {
    mark(v);
    while (is_alias(g_.op(v))) {
      mark(v);
      v = g_.producer(v).inputs[0];
      mark(v);
    }
    f_.asked[v] = true;
  }

  /// A library reads memory, by strides: what they can't say is copied, and numbers are spread out.
  void ask_operand(ValueId v) {
    if (g_.info(v).weak) return;
    std::vector<const ir::Node*> path;
    ValueId root = v;
    while (is_movement(g_.op(root))) {
      path.push_back(&g_.producer(root));
      root = path.back()->inputs[0];
    }
    if (is_number(g_, root)) return ask(v);
    std::optional<StridedView> view = identity_view(p_.graph.sym, g_, root);
    if (g_.op(root) == Op::kLeaf) view->strides = LeafAttributes(g_.producer(root)).strides;
    for (auto n = path.rbegin(); view && n != path.rend(); ++n) view = apply_movement(p_.graph.sym, g_, **n, *view);
    if (!view) ask(v);
  }

  void read(NodeId i) {
    const ir::Node& n = g_.nodes[i];
    const bool library = is_library(n.op);
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      if (n.inputs[k] == ir::kNone) continue;
      Origin o = origin(n.inputs[k]);
      if (is_number(g_, o.value)) continue;
      if (library || is_library(g_.op(o.value))) {
        o.kind = EdgeKind::kHard;
      } else {
        o.kind = std::max(o.kind, own_map(n, k));
      }
      const NodeId from = g_.info(o.value).node;
      const bool leaf = g_.op(o.value) == Op::kLeaf;
      const int id = static_cast<int>(f_.edges.size());
      f_.edges.push_back({leaf ? ir::kNone : from, i, o.value, o.kind});
      f_.in[i].push_back(id);
      if (leaf) {
        f_.leaf_reads[from].push_back(id);
      } else {
        f_.out[from].push_back(id);
      }
    }
  }

  /// As origin_of, but stops at movement that is in memory of its own.
  Origin origin(ValueId v) const {
    Origin all{v};
    while (is_movement(g_.op(all.value)) && !f_.computes[g_.info(all.value).node]) {
      const Origin one = step(all.value);
      all = {one.value, std::max(all.kind, one.kind)};
    }
    return all;
  }

  Origin step(ValueId v) const {
    const ir::Node& n = g_.producer(v);
    EdgeKind kind = EdgeKind::kSame;
    if (n.op == Op::kBarrier) {
      kind = EdgeKind::kHard;
    } else if (n.op == Op::kExpand) {
      kind = spreads_trailing(g_.shape(n.inputs[0]), g_.shape(v)) ? EdgeKind::kSpread : EdgeKind::kMoved;
    } else if (n.op == Op::kPermute) {
      kind = keeps_order(g_, n) ? EdgeKind::kSame : EdgeKind::kMoved;
    } else if (n.op != Op::kReshape) {
      kind = EdgeKind::kMoved;
    }
    return {n.inputs[0], kind};
  }

  /// How a primitive itself maps its elements to those of an input.
  static EdgeKind own_map(const ir::Node& n, size_t input) {
    switch (n.op) {
      case Op::kPermute:
      case Op::kSlice:
      case Op::kFlip:
      case Op::kExpand:
      case Op::kPad:
      case Op::kCat:
      case Op::kTake:
        return EdgeKind::kMoved;
      case Op::kGather:
        return input == 0 ? EdgeKind::kMoved : EdgeKind::kSame;
      default:
        return EdgeKind::kSame;
    }
  }

  Program& p_;
  const ir::Graph& g_;
  FuseGraph f_;
};

}  // namespace

FuseGraph build_fuse_graph(Program& program) { return Build(program).run(); }

}  // namespace smolder::jit
