// Fusion: clusters of nodes grow along the edges that save most bytes first. A merge must keep one loop nest
// able to compute everything in it, and must not close a cycle. What then crosses between clusters is
// written, or computed again where it is read (fuse_store.cpp).
#include "smolder/jit/fuse/fuse.h"
#include "smolder/jit/library/library.h"

#include <algorithm>
#include <numeric>
#include <sstream>

#include "smolder/core/counters.h"
#include "smolder/jit/attributes.h"
#include "smolder/jit/cost.h"
#include "smolder/jit/fuse/fuse_clusters.h"
#include "smolder/jit/fuse/long_sums.h"
#include "smolder/jit/switches.h"

namespace smolder::jit {

using ir::Dim;
using ir::NodeId;
using ir::ValueId;

Clusters::Clusters(Program& program, const FuseGraph& graph) : p_(program), f_(graph), parent_(graph.live.size()) {
  const size_t n = graph.live.size();
  apart_.assign(p_.graph.values.size(), false);
  for (const ValueId v : p_.keep_apart) apart_[v] = true;
  if (!is_disabled("cut_sums")) cut_long_sums(p_.graph, graph, apart_);
  std::iota(parent_.begin(), parent_.end(), 0);
  clusters_.resize(n);
  row_level_.assign(n, false);
  node_visit_.assign(n, 0);
  order_.assign(n, ir::kNone);
  std::vector<int> reductions_before(n, 0);
  for (NodeId i = 0; i < n; ++i) {
    if (!f_.live[i] || !f_.computes[i]) continue;
    Cluster& c = clusters_[i];
    c.members = {i};
    c.work = op_cost(p_.graph.nodes[i].op);
    c.first = c.last = i;
    c.rank = static_cast<int>(i);
    order_[i] = i;
    const ir::Node& node = p_.graph.nodes[i];
    c.library = is_library(node.op);
    c.sealed = c.library || numel(p_.graph.shape(node.first_output).values()) == 0;
    if (!c.library) c.space = space_of(p_, i);
    int& before = reductions_before[i];
    for (const int e : f_.in[i]) {
      const Edge& edge = f_.edges[e];
      c.moved_reads += edge.kind == EdgeKind::kMoved;
      if (edge.from != ir::kNone) {
        before = std::max(before, reductions_before[edge.from] + is_reduction(p_.graph, p_.graph.nodes[edge.from]));
      }
      if (edge.kind != EdgeKind::kSame && numel(p_.graph.shape(edge.value).values()) != 1) c.needs_extents = true;
    }
    if (is_reduction(p_.graph, node)) c.first_phase = c.last_phase = before;
  }
}

NodeId Clusters::find(NodeId i) const {
  while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
  return i;
}

bool Clusters::result_is_row(NodeId i) const { return row_level_[i] || clusters_[find(i)].reduces_here(p_, i); }

bool Clusters::Cluster::reduces_here(const Program& p, NodeId i) const {
  return space.reduces_columns && is_reduction(p.graph, p.graph.nodes[i]) && reduces_last(p.graph, p.graph.nodes[i]);
}

const char* Clusters::combine(const Edge& e, Combined& out) {
  const NodeId a = find(e.from), b = find(e.to);
  const Cluster &A = clusters_[a], &B = clusters_[b];
  ir::SymTable& sym = p_.graph.sym;
  const ir::Node& from = p_.graph.nodes[e.from];
  if (is_reduction(p_.graph, from) && !reduces_last(p_.graph, from)) return "a column reduction ends its kernel";
  if (is_reduction(p_.graph, from) && ReduceAttributes(from).chunk != Dim(0)) return "partials end their kernel";
  const bool from_row = result_is_row(e.from), to_row = row_level_[e.to];
  const auto both = [&](const char* why) -> const char* {
    auto u = unify(sym, A.space, B.space, true);
    if (!u) return why;
    if (u->joined_columns && (A.needs_extents || B.needs_extents))
      return "a reduced row joins dims that are needed apart";
    out.space = u->space;
    return nullptr;
  };
  if (e.kind == EdgeKind::kSpread) {
    if (from_row && !to_row) {
      Space rows = A.space;
      // The reader has these rows, whatever its columns were cut into.
      return both("its rows are not the reader's rows");
    }
    if (!from_row && A.space.is_flat() && !to_row && B.space.reduces_columns) {
      auto s = unify_rows(sym, B.space, A.space, true);
      if (!s) return "its elements are not the reader's rows";
      out.space = *s;
      out.sink_a = true;
      return nullptr;
    }
    return "a value is spread over what is no row of it";
  }
  if (from_row == to_row) return both("the loops do not fit");
  if (from_row && B.space.is_flat()) {
    auto s = unify_rows(sym, A.space, B.space, true);
    if (!s) return "the rows do not fit";
    out.space = *s;
    out.sink_b = true;
    return nullptr;
  }
  if (to_row && A.space.is_flat()) {
    auto s = unify_rows(sym, B.space, A.space, true);
    if (!s) return "the rows do not fit";
    out.space = *s;
    out.sink_a = true;
    return nullptr;
  }
  return "one is computed once a row, the other once an element";
}

/// Is there something from a to b, or inside of both together, that one kernel can't hold?
const char* Clusters::blocked_between(NodeId a, NodeId b, std::vector<int>& moved) {
  moved = clusters_[a].moved;
  moved.insert(moved.end(), clusters_[b].moved.begin(), clusters_[b].moved.end());
  const bool from_a = clusters_[a].members.size() <= clusters_[b].members.size();
  for (const NodeId m : clusters_[from_a ? a : b].members) {
    for (const auto* list : {&f_.in[m], &f_.out[m]}) {
      for (const int id : *list) {
        const Edge& e = f_.edges[id];
        if (e.from == ir::kNone) continue;
        const NodeId from = find(e.from), to = find(e.to);
        if (from == to || (from != a && from != b) || (to != a && to != b)) continue;
        if (e.kind == EdgeKind::kHard) return "a value between them must be in memory";
        if (is_kept_apart(e.value)) return "a value between them is kept apart";
        const ir::Node& n = p_.graph.nodes[e.from];
        if (is_reduction(p_.graph, n) && !reduces_last(p_.graph, n)) return "a column reduction ends its kernel";
        if (e.kind == EdgeKind::kMoved) moved.push_back(id);
      }
    }
  }
  for (const int id : moved) {
    if (hangs_on_reduction(f_.edges[id].from, a, b)) return "a value between them is moved after a reduction";
  }
  return nullptr;
}

std::optional<Clusters::Repeats> Clusters::repeats_of(NodeId a, NodeId b, const std::vector<int>& moved) {
  const ir::Graph& g = p_.graph;
  const size_t members = clusters_[a].members.size() + (a == b ? 0 : clusters_[b].members.size());
  const int room = max_statements() - static_cast<int>(members);
  Repeats r;
  seen_.clear();
  const auto read = [&](const Edge& e, Position at) {
    const NodeId home = e.from == ir::kNone ? ir::kNone : find(e.from);
    const bool inside = home == a || home == b;
    if (!seen_.insert(moved_by(at, 2 * uint64_t{inside ? e.from : e.value} + inside + 1)).second) return;
    ++r.count;
    if (inside) {
      r.cost += op_cost(g.nodes[e.from].op);
      r.computed.emplace_back(e.from, at);
    } else if (!seen_.insert(e.value).second) {
      r.cost += kNearLoad;
    }
  };
  for (const int id : moved) read(f_.edges[id], f_.edges[id].move);
  for (size_t i = 0; i < r.computed.size() && r.count <= room; ++i) {
    const auto [node, at] = r.computed[i];
    for (const int id : f_.in[node]) read(f_.edges[id], moved_by(at, f_.edges[id].move));
  }
  if (r.count > room) return std::nullopt;
  return r;
}

/// Is a kernel of both too large for what it computes again where elements are moved, or does that take longer than the
/// memory of `shared_bytes` that the two kernels would share?
const char* Clusters::repeats_too_much(NodeId a, NodeId b, Combined& how, int64_t shared_bytes) {
  if (how.moved.empty()) return nullptr;
  const Cluster &A = clusters_[a], &B = clusters_[b];
  const std::optional<Repeats> all = repeats_of(a, b, how.moved);
  if (!all) return kTooLarge;
  const double added = all->cost - A.repeat_cost - B.repeat_cost;
  const double elements = static_cast<double>(how.space.elements(p_.graph.sym).value);
  const double saved = 2 * static_cast<double>(shared_bytes) * kByteCost + launch_cost(p_.options.device.type);
  if (added * elements > worth_on(p_.options.device.type) * saved) return kTooCostly;
  how.repeats = all->count;
  how.repeat_cost = all->cost;
  return nullptr;
}

/// Does the node need a reduction of cluster a or b?
bool Clusters::hangs_on_reduction(NodeId node, NodeId a, NodeId b) {
  ++visit_;
  std::vector<NodeId> stack{node};
  while (!stack.empty()) {
    const NodeId i = stack.back();
    stack.pop_back();
    if (node_visit_[i] == visit_) continue;
    node_visit_[i] = visit_;
    if (is_reduction(p_.graph, p_.graph.nodes[i])) return true;
    for (const int id : f_.in[i]) {
      const NodeId from = f_.edges[id].from;
      if (from == ir::kNone) continue;
      const NodeId home = find(from);
      if (home == a || home == b) stack.push_back(from);
    }
  }
  return false;
}

bool Clusters::path_around(NodeId a, NodeId b) {
  // From a over others to b, along edges and so along the order: what comes after b can't lie on it.
  ++visit_;
  std::vector<NodeId> stack;
  const auto push_readers = [&](NodeId c) {
    for (const NodeId m : clusters_[c].members) {
      for (const int id : f_.out[m]) {
        const NodeId next = find(f_.edges[id].to);
        if (next == c || (c == a && next == b)) continue;
        if (next == b) return true;
        Cluster& n = clusters_[next];
        if (n.visit == visit_ || n.rank > clusters_[b].rank) continue;
        n.visit = visit_;
        stack.push_back(next);
      }
    }
    return false;
  };
  push_readers(a);
  const int limit = clusters_[b].rank - clusters_[a].rank > kFar ? kFarSearchLimit : kSearchLimit;
  for (int steps = 0; !stack.empty(); ++steps) {
    if (steps == limit) return true;
    const NodeId c = stack.back();
    stack.pop_back();
    if (push_readers(c)) return true;
  }
  return false;
}

void Clusters::stand_together(NodeId a, NodeId b) {
  // Clusters that the search from a met move behind the two; the others between them need nothing of a.
  const int begin = clusters_[a].rank, end = clusters_[b].rank;
  int at = begin;
  const auto put = [&](NodeId c) {
    clusters_[c].rank = at;
    order_[at++] = c;
  };
  std::vector<NodeId> behind{a};
  for (int i = begin + 1; i < end; ++i) {
    const NodeId c = order_[i];
    if (c == ir::kNone) continue;
    if (clusters_[c].visit == visit_) {
      behind.push_back(c);
    } else {
      put(c);
    }
  }
  for (const NodeId c : behind) put(c);
  clusters_[b].rank = clusters_[a].rank;
  while (at <= end) order_[at++] = ir::kNone;
}

void Clusters::join(NodeId a, NodeId b, Combined how) {
  const auto sink = [&](NodeId c) {
    for (const NodeId m : clusters_[c].members) row_level_[m] = true;
  };
  if (how.sink_a) sink(a);
  if (how.sink_b) sink(b);
  if (clusters_[a].members.size() < clusters_[b].members.size()) std::swap(a, b);
  Cluster &A = clusters_[a], &B = clusters_[b];
  order_[A.rank] = a;
  A.members.insert(A.members.end(), B.members.begin(), B.members.end());
  B.members.clear();
  A.work += B.work;
  A.first = std::min(A.first, B.first);
  A.last = std::max(A.last, B.last);
  A.moved_reads += B.moved_reads;
  A.first_phase = std::min(A.first_phase, B.first_phase);
  A.last_phase = std::max(A.last_phase, B.last_phase);
  A.needs_extents = A.needs_extents || B.needs_extents;
  A.space = std::move(how.space);
  A.moved = std::move(how.moved);
  A.repeats = how.repeats;
  A.repeat_cost = how.repeat_cost;
  parent_[b] = a;
}

const char* Clusters::parallelism_lost(NodeId a, NodeId b, const Space& s) const {
  // A kernel that reduces rows and columns runs its rows in chunks, one after another in each.
  if (!s.reduces_rows || !s.reduces_columns) return nullptr;
  if (clusters_[a].space.reduces_rows && clusters_[a].space.reduces_columns) return nullptr;
  if (clusters_[b].space.reduces_rows && clusters_[b].space.reduces_columns) return nullptr;
  int64_t ranges = 1, columns = 1, elements = 1;
  for (size_t i = 0; i < s.extents.size(); ++i) {
    const int64_t extent = s.extents[i].value;
    elements *= extent;
    if (static_cast<int>(i) >= s.split) {
      columns *= extent;
      continue;
    }
    const bool reduced = static_cast<int>(i) == s.split - 1;
    ranges *= !reduced ? extent : s.row_chunk == Dim(0) ? 1 : (extent + s.row_chunk.value - 1) / s.row_chunk.value;
  }
  constexpr int64_t kSmall = 1 << 16;
  if (ranges < 8 && elements > kSmall) return "too few chunks of rows to share among threads";
  // On a device a block has the groups of a chunk, which are of few threads where rows are short.
  constexpr int64_t kFewColumns = 64, kMany = 1 << 20;
  const bool on_device = p_.options.device != DeviceType::kCPU;
  return on_device && columns < kFewColumns && elements > kMany ? "too few columns to share among threads" : nullptr;
}

bool Clusters::is_large_enough(NodeId a, NodeId b, int64_t shared_bytes) const {
  const Cluster &A = clusters_[a], &B = clusters_[b];
  const size_t most = shared_bytes <= kTiny ? kTinyMembers : max_members();
  const int phases = std::max(A.last_phase, B.last_phase) - std::min(A.first_phase, B.first_phase);
  const int reads = moved_statements() * (A.moved_reads + B.moved_reads);
  if (static_cast<int>(A.members.size() + B.members.size()) + reads > max_statements()) return true;
  return A.members.size() + B.members.size() > most || A.work + B.work > kMaxWork || phases >= kMostPhases;
}

const char* Clusters::try_merge(const Edge& e) {
  if (e.kind == EdgeKind::kHard) return "it must be in memory";
  const NodeId a = find(e.from), b = find(e.to);
  if (a == b) return nullptr;
  if (clusters_[a].sealed || clusters_[b].sealed) return "a library call";
  if (is_kept_apart(e.value)) return "it is kept apart";
  if (is_large_enough(a, b, bytes_of(p_.graph, e.value))) return "the kernel is large enough";
  Combined how;
  if (const char* why = combine(e, how)) return why;
  if (const char* why = blocked_between(a, b, how.moved)) return why;
  if (const char* why = parallelism_lost(a, b, how.space)) return why;
  if (path_around(a, b)) return "it would have to run before and after another step";
  if (const char* why = repeats_too_much(a, b, how, bytes_of(p_.graph, e.value))) return why;
  stand_together(a, b);
  join(a, b, std::move(how));
  return nullptr;
}

bool Clusters::are_uneven_turns(NodeId a, NodeId b) const {
  const Cluster &A = clusters_[a], &B = clusters_[b];
  if (A.members.size() == B.members.size()) return false;
  const auto first = [&](const Cluster& c) {
    const ir::Node& n = p_.graph.nodes[c.first];
    return std::pair(n.op, n.origin.source);
  };
  return first(A) == first(B);
}

const char* Clusters::try_merge_siblings(NodeId a, NodeId b, ValueId shared) {
  if (a == b) return nullptr;
  const Cluster &A = clusters_[a], &B = clusters_[b];
  if (A.sealed || B.sealed) return "a library call";
  if (bytes_of(p_.graph, shared) <= kTiny && are_uneven_turns(a, b)) return "they are not as many turns of a loop";
  if (is_large_enough(a, b, bytes_of(p_.graph, shared))) return "the kernel is large enough";
  auto u = unify(p_.graph.sym, A.space, B.space, false);
  if (!u) return "the loops do not fit";
  if (u->joined_columns && (A.needs_extents || B.needs_extents))
    return "a reduced row joins dims that are needed apart";
  Combined how;
  how.space = std::move(u->space);
  if (const char* why = blocked_between(a, b, how.moved)) return why;
  if (const char* why = parallelism_lost(a, b, how.space)) return why;
  if (!near(a, b, shared)) return "they are far apart: memory would be held longer";
  if (clusters_[a].rank > clusters_[b].rank) std::swap(a, b);
  if (path_around(a, b)) return "one of them needs what the other makes";
  if (const char* why = repeats_too_much(a, b, how, bytes_of(p_.graph, shared))) return why;
  stand_together(a, b);
  join(a, b, std::move(how));
  return nullptr;
}

bool Clusters::near(NodeId a, NodeId b, ValueId) const {
  const Cluster &A = clusters_[a], &B = clusters_[b];
  const NodeId gap =
      A.first < B.first ? (B.first > A.last ? B.first - A.last : 0) : (A.first > B.last ? A.first - B.last : 0);
  return gap <= kNear;
}

void Clusters::merge_edges() {
  std::vector<std::pair<int64_t, int>> order;
  for (size_t i = 0; i < f_.edges.size(); ++i) {
    const Edge& e = f_.edges[i];
    if (e.from != ir::kNone) order.push_back({-bytes_of(p_.graph, e.value), static_cast<int>(i)});
  }
  std::sort(order.begin(), order.end());
  for (const auto& [bytes, id] : order) {
    const Edge& e = f_.edges[id];
    // A moved value joins no two kernels: stored_for() decides whether a kernel computes it again.
    if (find(e.from) == find(e.to) || e.kind == EdgeKind::kMoved) continue;
    if (const char* why = try_merge(e)) refused_.push_back({id, why});
  }
}

void Clusters::merge_siblings() {
  // Readers of one value, most bytes first; then what reads results of one kernel.
  struct Pair {
    int64_t bytes;
    NodeId a, b;
    ValueId shared;
  };
  std::vector<Pair> pairs;
  const auto add = [&](const std::vector<int>& edges) {
    NodeId last = ir::kNone;
    for (const int id : edges) {
      const Edge& e = f_.edges[id];
      if (e.kind != EdgeKind::kSame || clusters_[find(e.to)].sealed) continue;
      if (last != ir::kNone && find(last) != find(e.to))
        pairs.push_back({-bytes_of(p_.graph, e.value), last, e.to, e.value});
      last = e.to;
    }
  };
  for (NodeId i = 0; i < f_.live.size(); ++i) {
    if (!f_.live[i]) continue;
    add(f_.leaf_reads[i]);
    add(f_.out[i]);
  }
  for (NodeId c = 0; c < clusters_.size(); ++c) {
    if (find(c) != c || clusters_[c].members.empty() || clusters_[c].library) continue;
    NodeId last = ir::kNone;
    for (const NodeId m : clusters_[c].members) {
      for (const int id : f_.out[m]) {
        const Edge& e = f_.edges[id];
        if (find(e.to) == c || clusters_[find(e.to)].sealed) continue;
        if (last != ir::kNone && find(last) != find(e.to)) pairs.push_back({0, last, e.to, e.value});
        last = e.to;
      }
    }
  }
  std::stable_sort(pairs.begin(), pairs.end(), [](const Pair& x, const Pair& y) { return x.bytes < y.bytes; });
  // Turns of a loop join by twos, then by fours: once more for each doubling that a kernel may have.
  for (size_t size = 1; size <= kTinyMembers && !pairs.empty(); size *= 2) {
    std::erase_if(pairs, [&](const Pair& x) {
      NodeId a = find(x.a), b = find(x.b);
      if (clusters_[a].first > clusters_[b].first) std::swap(a, b);
      const bool waits = bytes_of(p_.graph, x.shared) <= kTiny && are_uneven_turns(a, b);
      if (!waits) try_merge_siblings(a, b, x.shared);
      return !waits;
    });
  }
}

void keep_random_results_apart(Program& program) {
  constexpr int64_t kSmall = 1 << 20;  // bytes, which take the device less time than a launch
  const ir::Graph& g = program.graph;
  std::vector<char> reads_leaf(g.nodes.size()), is_random(g.nodes.size());
  for (NodeId i = 0; i < g.nodes.size(); ++i) {
    const ir::Node& n = g.nodes[i];
    reads_leaf[i] = n.op == ir::Op::kLeaf;
    is_random[i] = n.op == ir::Op::kRandomBits;
    for (const ValueId v : n.inputs) {
      if (v == ir::kNone) continue;
      reads_leaf[i] |= reads_leaf[g.info(v).node];
      is_random[i] |= is_random[g.info(v).node];
    }
  }
  for (const ValueId v : g.outputs) {
    const NodeId made = g.info(v).node;
    if (is_random[made] && !reads_leaf[made] && bytes_of(g, v) <= kSmall) program.keep_apart.push_back(v);
  }
}

void fuse(Program& program) {
  const FuseGraph graph = build_fuse_graph(program);
  Clusters clusters(program, graph);
  clusters.merge_edges();
  clusters.merge_siblings();
  clusters.make_groups();
}

}  // namespace smolder::jit
