#include "smolder/jit/fuse/fuse_graph.h"

#include <algorithm>
#include <optional>

#include "smolder/jit/attributes.h"
#include "smolder/jit/library/library.h"
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

/// How a primitive maps its elements to those of an operand.
EdgeKind map_of(const ir::Graph& g, const ir::Node& n, size_t operand) {
  switch (n.op) {
    case Op::kBarrier:
      return EdgeKind::kHard;
    case Op::kExpand:
      return spreads_trailing(g.shape(n.inputs[0]), g.shape(n.first_output)) ? EdgeKind::kSpread : EdgeKind::kMoved;
    case Op::kPermute:
      return keeps_order(g, n) ? EdgeKind::kSame : EdgeKind::kMoved;
    case Op::kSlice:
    case Op::kFlip:
    case Op::kPad:
    case Op::kCat:
    case Op::kTake:
      return EdgeKind::kMoved;
    case Op::kGather:
      return operand == 0 ? EdgeKind::kMoved : EdgeKind::kSame;
    default:
      return EdgeKind::kSame;
  }
}

}  // namespace

Position moved_by(Position at, Move move) {
  if (move == 0) return at;
  const uint64_t h = (at ^ move) * 0x9e3779b97f4a7c15ull + move;
  return h ^ h >> 29;
}

Move move_of(const ir::Graph& g, const ir::Node& n, size_t operand) {
  if (map_of(g, n, operand) != EdgeKind::kMoved) return 0;
  Move move = static_cast<Move>(n.op) + 1;
  const auto add = [&](uint64_t word) { move = moved_by(move, word + 1); };
  // Parts of a cat lie apart, and what is looked up is where an index says.
  if (n.op == Op::kCat || n.op == Op::kTake || n.op == Op::kGather) add(operand);
  if ((n.op == Op::kTake || n.op == Op::kGather) && operand == 0) add(n.inputs[1]);
  for (const ir::Dim& d : n.attrs) add(static_cast<uint64_t>(d.value));
  for (const ir::Dim& d : g.shape(n.inputs[operand])) add(static_cast<uint64_t>(d.value));
  return move;
}

Origin origin_of(const Program& p, ValueId v) {
  EdgeKind kind = EdgeKind::kSame;
  for (;;) {
    const ir::Node& n = p.graph.producer(v);
    if (!is_movement(n.op)) return {v, kind};
    kind = std::max(kind, map_of(p.graph, n, 0));
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
      for (const ValueId x : node.inputs) {
        if (x != ir::kNone) mark(x);
      }
      if (node.op == Op::kBarrier) ask(node.inputs[0]);
    }
    // Nodes that are asked for are where views of other operands begin, and strides may then no longer say these.
    while (ask_operands()) {
    }
    for (NodeId i = 0; i < n; ++i) f_.computes[i] = f_.live[i] && computes(g_.nodes[i]);
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
      const ValueId renamed = g_.producer(v).inputs[0];
      if (g_.op(renamed) == Op::kLeaf && !is_contiguous(p_.graph.sym, *memory_of(renamed))) break;
      v = renamed;
      mark(v);
    }
    f_.asked[v] = true;
  }

  /// How a value will lie in memory, as lowering finds it there (view_in_memory).
  std::optional<StridedView> memory_of(ValueId v) {
    StridedView view = identity_view(p_.graph.sym, g_, v);
    if (g_.op(v) == Op::kLeaf) {
      const LeafAttributes a(g_.producer(v));
      view.strides = a.strides;
      view.offset = a.offset;
      return view;
    }
    if (f_.asked[v]) return view;
    if (is_movement(g_.op(v)) || is_number(g_, v)) return std::nullopt;
    return view;
  }

  bool has_view(ValueId v) {
    return view_from(p_.graph.sym, g_, v, [&](ValueId x) { return memory_of(x); }).has_value();
  }

  /// The value that an expanded one is a view of by strides, which is in fewer places.
  ValueId before_spread(ValueId v) const {
    while (g_.op(v) == Op::kExpand && !is_number(g_, g_.producer(v).inputs[0])) v = g_.producer(v).inputs[0];
    return v;
  }

  /// A library reads memory, by strides: what they can't say is copied, and numbers are spread out. Says whether more
  /// is asked for than before.
  bool ask_operands() {
    bool more = false;
    for (NodeId i = 0; i < g_.nodes.size(); ++i) {
      if (!f_.live[i] || !is_library(g_.nodes[i].op)) continue;
      for (const ValueId v : g_.nodes[i].inputs) {
        if (v == ir::kNone || g_.info(v).weak) continue;
        if (has_view(v)) continue;
        ask(before_spread(v));
        SMOLDER_INVARIANT(has_view(v));
        more = true;
      }
    }
    return more;
  }

  void read(NodeId i) {
    const ir::Node& n = g_.nodes[i];
    const bool library = is_library(n.op);
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      if (n.inputs[k] == ir::kNone) continue;
      Edge e = origin(n.inputs[k], move_of(g_, n, k));
      if (is_number(g_, e.value)) continue;
      e.kind = library || is_library(g_.op(e.value)) ? EdgeKind::kHard : std::max(e.kind, map_of(g_, n, k));
      e.to = i;
      const NodeId from = g_.info(e.value).node;
      const bool leaf = g_.op(e.value) == Op::kLeaf;
      if (!leaf) e.from = from;
      const int id = static_cast<int>(f_.edges.size());
      f_.edges.push_back(e);
      f_.in[i].push_back(id);
      if (leaf) {
        f_.leaf_reads[from].push_back(id);
      } else {
        f_.out[from].push_back(id);
      }
    }
  }

  /// As origin_of, but stops at movement that is in memory of its own, and tells the way there after `move`.
  Edge origin(ValueId v, Move move) const {
    Edge e{.value = v, .move = move};
    while (is_movement(g_.op(e.value)) && !f_.computes[g_.info(e.value).node]) {
      const ir::Node& n = g_.producer(e.value);
      e.kind = std::max(e.kind, map_of(g_, n, 0));
      e.move = moved_by(e.move, move_of(g_, n, 0));
      e.value = n.inputs[0];
    }
    return e;
  }

  Program& p_;
  const ir::Graph& g_;
  FuseGraph f_;
};

}  // namespace

FuseGraph build_fuse_graph(Program& program) { return Build(program).run(); }

}  // namespace smolder::jit
