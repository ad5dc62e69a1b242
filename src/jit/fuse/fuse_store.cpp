// The second half of fusion: which of the values that cross between clusters are written to memory, and which
// are computed again where they are read; then clusters become groups.
#include <algorithm>
#include <queue>
#include <sstream>

#include "smolder/core/counters.h"
#include "smolder/jit/attributes.h"
#include "smolder/jit/cost.h"
#include "smolder/jit/fuse/fuse.h"
#include "smolder/jit/fuse/fuse_clusters.h"
#include "smolder/jit/library/library.h"
#include "smolder/jit/switches.h"
#include "smolder/jit/view.h"

namespace smolder::jit {

using ir::NodeId;
using ir::Op;
using ir::ValueId;

namespace {

constexpr int kMaxTree = 48;

constexpr const char* kReduced = "its elements are moved, and something is reduced on the way";

/// Nanoseconds of a core that so many elements of a node's result take. What is looked up waits for its address, on a
/// GPU as long as for the memory that it saves: a normalisation's gradient that looks up its rows, 25 MB, took 78%
/// longer than one that reads them. Where that is looked up in turn (`waits`) its reader waits once for both. Halves
/// become float32 there as they are loaded, and are half the bytes.
double cost_of(const Program& p, const ir::Node& n, double elements, bool waits) {
  const ir::Graph& g = p.graph;
  const bool on_gpu = p.options.device == DeviceType::kCUDA;
  const bool widens = n.op == Op::kCast && is_half(g.dtype(n.inputs[0])) && g.dtype(n.first_output) == DType::kFloat32;
  if (on_gpu && widens) return 0;
  const bool looks_up = n.op == Op::kTake || n.op == Op::kGather;
  return (op_cost(n.op) + (looks_up ? on_gpu && !waits ? 4.0 : 0.5 : 0)) * elements;
}

/// Whether so many bytes may be held for longer in place of a value's. A reduction's results come on top of a row.
bool may_hold(int64_t held, int64_t bytes) { return held <= bytes + bytes / 16; }

}  // namespace

/// The cost of computing a value again from memory.
struct Clusters::Tree {
  int64_t bytes = 0;    ///< of the value
  double elements = 0;  ///< of the value
  bool possible = true;
  bool waits = false;                                     ///< for the value, which is looked up
  double cost = 0;                                        ///< nanoseconds for all elements of the value
  std::vector<ValueId> loads;                             ///< values in memory that it reads
  std::vector<ValueId> small;                             ///< reductions it needs that would have to be written
  std::vector<std::pair<uint32_t, Position>> statements;  ///< nodes, or values that are loaded, at each position
};

/// A kernel that would compute a value again.
struct Clusters::Reading {
  NodeId cluster;
  std::vector<Position> at;  ///< where in the value, beside the element that the kernel's loops are at
  double copies(const Clusters& all, double elements) const {
    const double ratio = static_cast<double>(all.clusters_[cluster].space.elements(all.p_.graph.sym).value) / elements;
    double copies = 0;
    for (const Position p : at) copies += p == 0 ? 1 : ratio;
    return std::max(1.0, copies);
  }
};

void Clusters::grow(ValueId v, Position at, Tree& tree) const {
  const ir::Graph& g = p_.graph;
  if (!tree.possible || is_number(g, v)) return;
  const NodeId i = g.info(v).node;
  const auto once = [](auto& list, auto x) {
    if (std::find(list.begin(), list.end(), x) != list.end()) return false;
    list.push_back(x);
    return true;
  };
  const bool loads = g.op(v) == Op::kLeaf || stored_[v];
  const bool again = loads && !once(tree.loads, v);
  if (loads && at == 0) return;
  const ir::Node& n = g.nodes[i];
  if (!loads && is_reduction(g, n)) {
    // The result of a reduction can be kept instead, where it is little beside the value.
    if (bytes_of(g, v) * 16 > tree.bytes || !reduces_last(g, n)) {
      tree.possible = false;
    } else {
      once(tree.small, v);
    }
    return;
  }
  if (!loads && (is_library(n.op) || n.op == Op::kBarrier)) {
    tree.possible = false;
    return;
  }
  if (!once(tree.statements, std::pair(2 * i + loads, at))) return;
  if (tree.statements.size() > kMaxTree) {
    tree.possible = false;
    return;
  }
  if (loads) {
    if (again) tree.cost += kNearLoad * tree.elements;
    return;
  }
  // An input read elsewhere is computed for each element of the value; one spread over it, perhaps for fewer.
  const double elements = at == 0 ? static_cast<double>(numel(g.shape(v).values())) : tree.elements;
  if (!is_movement(n.op)) tree.cost += cost_of(p_, n, elements, tree.waits);
  for (size_t k = 0; k < n.inputs.size(); ++k) grow(n.inputs[k], moved_by(at, move_of(g, n, k)), tree);
}

/// Where each kernel that reads `v` needs it: its reader's elements, at the positions at which that is computed itself.
std::vector<Clusters::Reading> Clusters::readings_of(const std::vector<const Edge*>& readers) {
  std::vector<Reading> out;
  for (const Edge* e : readers) {
    const NodeId cluster = find(e->to);
    auto known = std::ranges::find(out, cluster, &Reading::cluster);
    if (known == out.end()) known = out.insert(out.end(), Reading{cluster, {}});
    const auto add = [&](Position at) {
      if (std::ranges::find(known->at, at) == known->at.end()) known->at.push_back(at);
    };
    add(e->move);
    if (const auto repeated = repeated_.find(cluster); repeated != repeated_.end()) {
      const auto [first, last] =
          std::ranges::equal_range(repeated->second, e->to, {}, &std::pair<NodeId, Position>::first);
      for (auto r = first; r != last; ++r) add(moved_by(r->second, e->move));
    }
  }
  return out;
}

/// Why the value is to be written to memory; null where its readers had better compute it again.
const char* Clusters::stored_for(ValueId v, const std::vector<const Edge*>& readers) {
  const ir::Graph& g = p_.graph;
  const int64_t bytes = bytes_of(g, v);
  const NodeId home = find(g.info(v).node);
  const ir::Node& n = g.producer(v);
  if (is_reduction(g, n)) return kReduced;
  Tree tree;
  tree.bytes = bytes;
  tree.elements = std::max(1.0, static_cast<double>(numel(g.shape(v).values())));
  tree.waits = std::ranges::all_of(readers, [&](const Edge* e) {
    const ir::Node& reader = g.nodes[e->to];
    return reader.op == Op::kTake && origin_of(p_, reader.inputs[0]).value == v;
  });
  grow(v, 0, tree);
  if (tree.statements.size() > kMaxTree) return kTooLarge;
  if (!tree.possible) return kReduced;

  double saved = static_cast<double>(bytes), added = 0, compute = 0;
  // Loads among them are of moved elements.
  const auto moved =
      static_cast<int>(std::ranges::count_if(tree.statements, [](const auto& s) { return s.first % 2; }));
  const bool on_cpu = p_.options.device == DeviceType::kCPU;
  const int tree_statements =
      static_cast<int>(tree.statements.size()) + (on_cpu ? 0 : moved * (moved_statements() - 1));
  std::vector<ValueId> longer;  // values in memory that some reader needs after all that read them now
  const std::vector<Reading> readings = readings_of(readers);
  for (const Reading& r : readings) {
    if (statements_[r.cluster] + tree_statements * static_cast<int>(r.at.size()) > max_statements()) return kTooLarge;
    saved += static_cast<double>(bytes);
    compute += tree.cost * r.copies(*this, tree.elements);
    for (const auto* list : {&tree.loads, &tree.small}) {
      for (const ValueId x : *list) {
        if (!reads(r.cluster, x)) added += static_cast<double>(bytes_of(g, x));
        const bool held = g.op(x) != Op::kLeaf && last_reader(x) < clusters_[r.cluster].last;
        if (held && std::find(longer.begin(), longer.end(), x) == longer.end()) longer.push_back(x);
      }
    }
  }
  int64_t held = 0;
  for (const ValueId x : longer) held += bytes_of(g, x);
  for (const ValueId x : tree.small) added += static_cast<double>(bytes_of(g, x));
  // The cluster itself, and what it reads, goes away when this is all it is for.
  double launch = 0;
  if (crossing_[home] == 1) {
    launch = launch_cost(p_.options.device.type);
    for (const ValueId x : tree.loads) saved += static_cast<double>(bytes_of(g, x));
    compute = std::max(0.0, compute - tree.cost);
  }
  // A product does its relu itself where nothing else is left to be done (join_bias.h). The gradients of the product
  // before and of this relu, which read it both, are next to each other.
  if (const ValueId relu = relu_beside(v); relu != ir::kNone) {
    launch = launch_cost(p_.options.device.type);
    saved += 2 * static_cast<double>(bytes_of(g, relu));
    held = 0;
  }
  if (!may_hold(held, bytes)) return "memory would be held longer";
  const double gain = (saved - added) * kByteCost + launch;
  if (gain <= 0 || compute > worth_on(p_.options.device.type) * gain) return kTooCostly;
  for (const ValueId x : tree.small) stored_[x] = true;
  for (const Reading& r : readings) statements_[r.cluster] += tree_statements * static_cast<int>(r.at.size());
  return nullptr;
}

/// The relu of a product with a bias which, but for the computing of `v`, is all that the cluster of `v` does.
ValueId Clusters::relu_beside(ValueId v) const {
  const ir::Graph& g = p_.graph;
  const NodeId i = g.info(v).node, home = find(i);
  if (clusters_[home].members.size() != 2 || crossing_[home] != 2) return ir::kNone;
  const NodeId other = clusters_[home].members[clusters_[home].members[0] == i];
  const ir::Node& n = g.nodes[other];
  if (n.op != Op::kRelu || !stored_[n.first_output]) return ir::kNone;
  const NodeId from = g.info(origin_of(p_, n.inputs[0]).value).node;
  const ir::Node& product = g.nodes[from];
  const bool has_bias = product.op == Op::kDot && product.inputs[2] != ir::kNone;
  const bool is_joined = has_bias && f_.out[from].size() == 1 && !is_disabled("join_bias");
  return is_joined ? n.first_output : ir::kNone;
}

bool Clusters::reads(NodeId cluster, ValueId v) const {
  const NodeId from = p_.graph.info(v).node;
  const auto& edges = p_.graph.op(v) == Op::kLeaf ? f_.leaf_reads[from] : f_.out[from];
  return std::any_of(edges.begin(), edges.end(), [&](int id) { return find(f_.edges[id].to) == cluster; });
}

NodeId Clusters::last_reader(ValueId v) const {
  NodeId last = 0;
  if (f_.asked[v]) {
    for (const ValueId out : p_.graph.outputs) {
      if (out == v) return ir::kNone;
    }
  }
  for (const int id : f_.out[p_.graph.info(v).node]) last = std::max(last, clusters_[find(f_.edges[id].to)].last);
  return last;
}

void Clusters::decide_stores() {
  const ir::Graph& g = p_.graph;
  stored_.assign(g.values.size(), false);
  crossing_.assign(g.nodes.size(), 0);
  const auto crosses = [&](NodeId i) {
    return std::any_of(f_.out[i].begin(), f_.out[i].end(), [&](int id) {
      return f_.edges[id].kind == EdgeKind::kHard || find(f_.edges[id].to) != find(i);
    });
  };
  for (NodeId i = 0; i < g.nodes.size(); ++i) {
    if (!f_.live[i] || !f_.computes[i]) continue;
    for (int k = 0; k < g.nodes[i].num_outputs; ++k) {
      if (f_.asked[g.nodes[i].first_output + k] || crosses(i)) ++crossing_[find(i)];
    }
  }
  statements_.assign(g.nodes.size(), 0);
  for (NodeId c = 0; c < clusters_.size(); ++c) {
    if (find(c) != c || clusters_[c].members.empty()) continue;
    statements_[c] = static_cast<int>(clusters_[c].members.size()) + clusters_[c].repeats;
    if (clusters_[c].moved.empty()) continue;
    auto& repeated = repeated_[c] = repeats_of(c, c, clusters_[c].moved).value_or(Repeats{}).computed;
    std::ranges::sort(repeated);
  }
  for (NodeId i = 0; i < g.nodes.size(); ++i) {
    if (!f_.live[i] || !f_.computes[i]) continue;
    const ir::Node& n = g.nodes[i];
    const ValueId v = n.first_output;
    if (clusters_[find(i)].library) {
      for (int k = 0; k < n.num_outputs; ++k) stored_[v + k] = true;
      continue;
    }
    bool must = f_.asked[v];
    std::vector<const Edge*> readers;
    for (const int id : f_.out[i]) {
      const Edge& e = f_.edges[id];
      if (e.kind == EdgeKind::kHard) must = true;
      if (find(e.to) != find(i)) readers.push_back(&e);
    }
    const auto refuse = [&](const char* why) {
      for (const Edge* e : readers) {
        if (e->kind == EdgeKind::kMoved) refused_.push_back({static_cast<int>(e - f_.edges.data()), why});
      }
    };
    if (must) {
      stored_[v] = true;
      refuse("it must be in memory");
    } else if (!readers.empty() && !stored_[v]) {
      const char* const why = stored_for(v, readers);
      stored_[v] = why != nullptr;
      if (why) refuse(why);
    }
  }
}

void Clusters::make_groups() {
  decide_stores();
  const ir::Graph& g = p_.graph;
  p_.groups.clear();
  p_.group_of.assign(g.values.size(), -1);
  for (NodeId c = 0; c < clusters_.size(); ++c) {
    Cluster& cluster = clusters_[c];
    if (find(c) != c || cluster.members.empty()) continue;
    std::sort(cluster.members.begin(), cluster.members.end());
    Group group;
    group.kind = cluster.library ? Group::kLibrary : Group::kKernel;
    if (cluster.library) group.node = c;
    group.domain = to_domain(cluster.space);
    for (const NodeId m : cluster.members) {
      for (int k = 0; k < g.nodes[m].num_outputs; ++k) {
        if (stored_[g.nodes[m].first_output + k]) group.sinks.push_back(g.nodes[m].first_output + k);
      }
      if (!cluster.library && is_reduction(g, g.nodes[m])) group.reductions.push_back(m);
    }
    if (group.sinks.empty()) continue;
    for (const ValueId v : group.sinks) p_.group_of[v] = static_cast<GroupId>(p_.groups.size());
    p_.groups.push_back(std::move(group));
  }
  order_groups();
  for (const Refusal& r : refused_) {
    const Edge& e = f_.edges[r.edge];
    if (!stored_[e.value]) continue;
    p_.refusals.push_back({e.value, e.to, r.why});
  }
}

void Clusters::order_groups() {
  const ir::Graph& g = p_.graph;
  const size_t n = p_.groups.size();
  std::vector<std::vector<GroupId>> readers(n);
  std::vector<int> waits(n, 0);
  std::vector<uint32_t> seen(g.values.size(), 0);
  std::vector<ValueId> stack;
  for (GroupId id = 0; id < static_cast<GroupId>(n); ++id) {
    const uint32_t stamp = static_cast<uint32_t>(id) + 1;
    std::vector<GroupId> needs;
    for (const ValueId sink : p_.groups[id].sinks) {
      for (const ValueId x : g.producer(sink).inputs) stack.push_back(x);
    }
    while (!stack.empty()) {
      const ValueId v = stack.back();
      stack.pop_back();
      if (v == ir::kNone || seen[v] == stamp) continue;
      seen[v] = stamp;
      const GroupId writer = p_.group_of[v];
      if (writer >= 0 && writer != id) {
        needs.push_back(writer);
        continue;
      }
      for (const ValueId x : g.producer(v).inputs) stack.push_back(x);
    }
    std::sort(needs.begin(), needs.end());
    needs.erase(std::unique(needs.begin(), needs.end()), needs.end());
    for (const GroupId w : needs) readers[w].push_back(id);
    waits[id] = static_cast<int>(needs.size());
  }
  // Program order, as far as dependencies allow: a group stands where its first result does.
  std::priority_queue<std::pair<ValueId, GroupId>, std::vector<std::pair<ValueId, GroupId>>, std::greater<>> ready;
  const auto push = [&](GroupId id) { ready.push({p_.groups[id].sinks.front(), id}); };
  for (GroupId id = 0; id < static_cast<GroupId>(n); ++id) {
    if (waits[id] == 0) push(id);
  }
  std::vector<Group> ordered;
  while (!ready.empty()) {
    const GroupId id = ready.top().second;
    ready.pop();
    ordered.push_back(std::move(p_.groups[id]));
    for (const GroupId r : readers[id]) {
      if (--waits[r] == 0) push(r);
    }
  }
  SMOLDER_INVARIANT(ordered.size() == n);
  p_.groups = std::move(ordered);
  for (GroupId id = 0; id < static_cast<GroupId>(n); ++id) {
    for (const ValueId v : p_.groups[id].sinks) p_.group_of[v] = id;
  }
}

}  // namespace smolder::jit
