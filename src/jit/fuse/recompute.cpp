#include "smolder/jit/fuse/recompute.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "smolder/ir/rewrite.h"
#include "smolder/jit/cost.h"
#include "smolder/jit/fuse/fuse_graph.h"
#include "smolder/jit/library/library.h"
#include "smolder/jit/view.h"

namespace smolder::jit {

using ir::NodeId;
using ir::Op;
using ir::ValueId;

namespace {

/// How many nodes are computed at most, from memory, to have a value again.
constexpr size_t kMostNodes = 48;
/// Multiplications and additions of a product in the time of a byte, and the arithmetic of a kernel that hides behind
/// the bytes it moves. A device's.
constexpr double kFlopsPerByte = 150, kHidden = 8;
/// Bytes in the time that a launch takes.
constexpr double kLaunchBytes = 5e6;

std::atomic<int64_t> g_scarce{int64_t{2} << 30};

class Recompute {
 public:
  Recompute(Program& p, const RecomputeLimits& limits) : p_(p), g_(p.graph), limits_(limits) {}

  bool run() {
    if (!may_be_scarce()) return false;
    find_uses();
    find_live();
    choose();
    if (cut_.empty()) return false;
    rebuild();
    return true;
  }

 private:
  struct Candidate {
    ValueId value = ir::kNone;
    double moved = 0;                ///< bytes, and what else takes their time
    int last_early = 0, first_late;  ///< positions it is not needed between
    std::vector<NodeId> nodes;
  };

  bool is_stored(ValueId v) const { return p_.group_of[v] >= 0; }
  /// In the arena: what a user reads is kept elsewhere, and for longer.
  bool is_placed(ValueId v) const { return is_stored(v) && !outputs_.contains(v); }
  int64_t bytes(ValueId v) const { return bytes_of(g_, v); }

  bool may_be_scarce() const {
    int64_t sum = 0;
    for (ValueId v = 0; v < g_.values.size(); ++v) sum += is_stored(v) ? bytes(v) : 0;
    return sum >= limits_.scarce;
  }

  /// The nodes of a group, and the values in memory that they read.
  void walk(GroupId id, std::vector<NodeId>& nodes, std::vector<ValueId>& loads) const {
    std::unordered_set<ValueId> seen;
    std::vector<ValueId> todo = p_.groups[id].sinks;
    while (!todo.empty()) {
      const ValueId v = todo.back();
      todo.pop_back();
      nodes.push_back(g_.info(v).node);
      for (const ValueId x : g_.producer(v).inputs) {
        if (x == ir::kNone || is_number(g_, x) || p_.group_of[x] == id || !seen.insert(x).second) continue;
        (is_stored(x) || g_.op(x) == Op::kLeaf ? loads : todo).push_back(x);
      }
    }
  }

  void find_uses() {
    for (ValueId v : g_.outputs) {
      while (is_alias(g_.op(v))) v = g_.producer(v).inputs[0];
      outputs_.insert(v);
    }
    uses_.resize(g_.values.size());
    loads_.resize(p_.groups.size());
    for (size_t i = 0; i < p_.groups.size(); ++i) {
      std::vector<NodeId> nodes;
      walk(static_cast<GroupId>(i), nodes, loads_[i]);
      for (const ValueId v : loads_[i]) {
        uses_[v].push_back(static_cast<int>(i));
        time_ += static_cast<double>(bytes(v));
      }
      for (const ValueId v : p_.groups[i].sinks) time_ += static_cast<double>(bytes(v));
      if (p_.groups[i].kind == Group::kLibrary) time_ += flops(g_.nodes[p_.groups[i].node]) / kFlopsPerByte;
    }
  }

  double flops(const ir::Node& n) const {
    if (n.op != Op::kDot) return 0;
    const ir::SymDims& rows = g_.shape(n.inputs[0]);
    return 2.0 * static_cast<double>(numel(g_.shape(n.first_output).values()) * rows[rows.size() - 1].value);
  }

  /// Bytes of the arena while each group runs. A kernel writes over what it reads last.
  void find_live() {
    live_.assign(p_.groups.size() + 1, 0);
    for (ValueId v = 0; v < g_.values.size(); ++v) {
      if (!is_placed(v) || uses_[v].empty()) continue;
      live_[p_.group_of[v]] += bytes(v);
      live_[uses_[v].back() + 1] -= bytes(v);
    }
    for (size_t i = 1; i < live_.size(); ++i) live_[i] += live_[i - 1];
    live_.pop_back();
    for (size_t i = 0; i < live_.size(); ++i) {
      if (p_.groups[i].kind != Group::kKernel) continue;
      std::vector<ValueId> written = p_.groups[i].sinks;
      for (const ValueId v : loads_[i]) {
        if (!is_placed(v) || uses_[v].back() != static_cast<int>(i)) continue;
        const auto heir = std::ranges::find_if(written, [&](ValueId w) { return bytes(w) == bytes(v); });
        if (heir == written.end()) continue;
        live_[i] -= bytes(v);
        written.erase(heir);
      }
    }
  }

  int peak() const { return static_cast<int>(std::ranges::max_element(live_) - live_.begin()); }

  /// The nodes between a value and memory, and what they read there; empty where it can't be computed again.
  std::optional<Candidate> tree_of(ValueId v, std::vector<ValueId>& loads) const {
    Candidate c{.value = v, .first_late = 0, .nodes = {}};
    std::vector<ValueId> todo{v};
    std::unordered_set<ValueId> seen{v};
    while (!todo.empty()) {
      const ValueId x = todo.back();
      todo.pop_back();
      const ir::Node& n = g_.producer(x);
      const ir::OpFlags& flags = ir::info(n.op).flags;
      // A lookup of elements reports bad indices, once.
      const bool looks_up = n.op == Op::kTake || n.op == Op::kGather;
      if (is_library(n.op) || is_reduction(g_, n) || n.op == Op::kReduce || n.op == Op::kBarrier || looks_up ||
          flags.random || flags.effect || n.num_outputs != 1 || c.nodes.size() == kMostNodes) {
        return {};
      }
      c.nodes.push_back(g_.info(x).node);
      for (const ValueId y : n.inputs) {
        if (y == ir::kNone || is_number(g_, y) || !seen.insert(y).second) continue;
        (is_stored(y) || g_.op(y) == Op::kLeaf ? loads : todo).push_back(y);
      }
    }
    return c;
  }

  double arithmetic(const std::vector<NodeId>& nodes, const std::vector<NodeId>& known) const {
    double ns = 0;
    for (const NodeId i : nodes) {
      if (std::ranges::find(known, i) != known.end() || is_movement(g_.nodes[i].op)) continue;
      ns += op_cost(g_.nodes[i].op) * static_cast<double>(numel(g_.shape(g_.nodes[i].first_output).values()));
    }
    return ns / kHidden / kByteCost;
  }

  /// The cost of computing `v` again after `peak`; empty where the peak needs it, or more would have to be kept.
  std::optional<Candidate> candidate(ValueId v, int peak) const {
    if (!is_placed(v) || p_.groups[p_.group_of[v]].kind != Group::kKernel || p_.group_of[v] >= peak) return {};
    if (is_movement(g_.op(v))) return {};
    const auto late = std::ranges::lower_bound(uses_[v], peak);
    if (late == uses_[v].end() || *late == peak) return {};
    std::vector<ValueId> loads;
    auto c = tree_of(v, loads);
    if (!c) return {};
    c->last_early = late == uses_[v].begin() ? p_.group_of[v] : *std::prev(late);
    c->first_late = *late;
    int64_t held = 0, read = 0;
    bool computed = false;  // of what the step computes: a weight's half is as soon kept
    std::vector<ValueId> large;
    for (const ValueId x : loads) {
      computed = computed || is_stored(x);
      const bool waits = !uses_[x].empty() && uses_[x].back() >= *late;
      if (!waits && !outputs_.contains(x)) held += bytes(x);
      if (bytes(x) * 16 > bytes(v)) large.push_back(x);
      read += bytes(x);
    }
    if (!computed || large.empty() || held * 16 > bytes(v)) return {};
    // A kernel that reads all of that then will hold these nodes, too.
    for (const int i : uses_[large[0]]) {
      const auto reads = [&](ValueId x) { return std::ranges::find(loads_[i], x) != loads_[i].end(); };
      if (i <= peak || p_.groups[i].kind != Group::kKernel || !std::ranges::all_of(large, reads)) continue;
      std::vector<NodeId> known;
      std::vector<ValueId> ignored;
      walk(i, known, ignored);
      c->moved = static_cast<double>(bytes(v)) + arithmetic(c->nodes, known);
      return c;
    }
    c->moved = static_cast<double>(bytes(v) + read) + kLaunchBytes + arithmetic(c->nodes, {});
    return c;
  }

  void choose() {
    const int first = peak();
    if (live_[first] < limits_.scarce) return;
    std::vector<Candidate> all;
    for (ValueId v = 0; v < g_.values.size(); ++v) {
      auto c = candidate(v, first);
      if (c && static_cast<double>(bytes(v)) >= limits_.saved * c->moved) all.push_back(std::move(*c));
    }
    const auto worth = [&](const Candidate& c) { return static_cast<double>(bytes(c.value)) / c.moved; };
    std::ranges::stable_sort(all, [&](const Candidate& a, const Candidate& b) { return worth(a) > worth(b); });
    double left = limits_.share * time_;
    for (const Candidate& c : all) {
      const int now = peak();
      if (live_[now] < limits_.scarce) return;
      if (now <= c.last_early || now >= c.first_late || c.moved > left) continue;
      left -= c.moved;
      for (int i = c.last_early + 1; i < c.first_late; ++i) live_[i] -= bytes(c.value);
      cut_[c.value] = g_.info(p_.groups[now].sinks.front()).node;
      for (const NodeId n : c.nodes) {
        NodeId& cut = made_again_.try_emplace(g_.nodes[n].first_output, cut_[c.value]).first->second;
        cut = std::min(cut, cut_[c.value]);
      }
    }
  }

  /// From which node on a value is another: a chosen one, what it is computed from, and what is computed of these for
  /// readers on both sides.
  void find_cuts() {
    from_.assign(g_.values.size(), ir::kNone);
    for (const ir::Node& n : g_.nodes) {
      const ValueId v = n.first_output;
      if (const auto it = made_again_.find(v); it != made_again_.end()) from_[v] = it->second;
      const bool follows = !is_stored(v) && n.num_outputs == 1 && !is_library(n.op) && n.op != Op::kReduce;
      for (const ValueId x : n.inputs) {
        if (follows && x != ir::kNone) from_[v] = std::min(from_[v], from_[x]);
      }
    }
  }

  void rebuild() {
    find_cuts();
    ir::Rewriter rewriter(g_);
    rewriter_ = &rewriter;
    again_.assign(g_.values.size(), ir::kNone);
    behind_ = again_;
    ir::rewrite_nodes(rewriter, [&](ir::Rewriter& r, const ir::Node& n) {
      std::vector<ValueId> inputs = n.inputs;
      for (ValueId& x : inputs) {
        if (x != ir::kNone) x = from_[x] < r.index(n) ? again(x) : r.now(x);
      }
      r.copy(n, std::move(inputs));
      return true;
    });
    g_ = rewriter.finish();
  }

  ValueId again(ValueId v) {
    if (again_[v] != ir::kNone) return again_[v];
    const ir::Node& n = g_.producer(v);
    std::vector<ValueId> inputs = n.inputs;
    for (ValueId& x : inputs) {
      if (x != ir::kNone) x = from_[x] != ir::kNone ? again(x) : behind(x);
    }
    return again_[v] = rewriter_->append(n, std::move(inputs));
  }

  /// A value of before. What reads it here must not become a part of what computed it.
  ValueId behind(ValueId v) {
    const ValueId now = rewriter_->now(v);
    if (!is_stored(v)) return now;
    if (behind_[v] == ir::kNone) {
      behind_[v] = rewriter_->to().append(Op::kBarrier, {now}, {}, {&g_.info(v), 1}, g_.producer(v).origin);
    }
    return behind_[v];
  }

  Program& p_;
  ir::Graph& g_;
  const RecomputeLimits limits_;
  std::unordered_set<ValueId> outputs_;                   ///< values whose memory is an output's
  std::vector<std::vector<ValueId>> loads_;               ///< by group
  std::vector<std::vector<int>> uses_;                    ///< by value: the groups that read it
  std::vector<int64_t> live_;                             ///< by group
  double time_ = 0;                                       ///< of the step, in bytes
  std::unordered_map<ValueId, NodeId> cut_, made_again_;  ///< chosen values, and all that are computed for them
  std::vector<NodeId> from_;
  ir::Rewriter* rewriter_ = nullptr;  ///< while the graph is built anew
  std::vector<ValueId> again_, behind_;
};

}  // namespace

int64_t scarce_bytes() { return g_scarce.load(std::memory_order_relaxed); }
void set_scarce_bytes(int64_t bytes) { g_scarce.store(bytes, std::memory_order_relaxed); }

bool recompute(Program& program, const RecomputeLimits& limits) { return Recompute(program, limits).run(); }

}  // namespace smolder::jit
