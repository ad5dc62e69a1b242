#include "smolder/jit/cuda/join_gradients.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "smolder/core/counters.h"
#include "smolder/ir/rewrite.h"
#include "smolder/jit/attributes.h"

namespace smolder::jit::cuda {

using ir::Dim;
using ir::NodeId;
using ir::Op;
using ir::ValueId;

namespace {

constexpr int kParts = 3;

/// The sum that puts the results of a backward side by side, and the nodes that only lead to it.
struct Joined {
  ValueId sum = ir::kNone;
  std::vector<NodeId> between;
  bool parts_first = false;  ///< it is [3, ..., heads, L, E], else [..., L, 3 heads E] or as its last axes are split
};

class Finder {
 public:
  explicit Finder(ir::Graph& g) : g_(g), uses_(g.values.size(), 0), user_(g.values.size(), ir::kNone) {
    for (size_t i = 0; i < g.nodes.size(); ++i) {
      for (const ValueId x : g.nodes[i].inputs) {
        if (x != ir::kNone) ++uses_[x], user_[x] = static_cast<NodeId>(i);
      }
    }
    for (const ValueId v : g.outputs) uses_[v] += 2;  // the caller reads it: it has to be there
  }

  std::optional<Joined> find(const ir::Node& backward) {
    if (backward.attrs[1].value == 0) return std::nullopt;
    Joined found;
    std::array<ValueId, kParts> pads{};
    int permuted = 0;
    for (int i = 0; i < kParts; ++i) {
      ValueId v = backward.first_output + static_cast<ValueId>(i);
      if (uses_[v] == 1 && swaps_heads(g_.nodes[user_[v]])) {
        ++permuted;
        found.between.push_back(user_[v]);
        v = g_.nodes[user_[v]].first_output;
      }
      while (v != ir::kNone && g_.op(v) != Op::kPad) v = follow(v, found);
      if (v == ir::kNone) return std::nullopt;
      pads[static_cast<size_t>(i)] = v;
    }
    found.parts_first = permuted == kParts;
    const std::optional<ValueId> sum = sum_of(pads, found);
    if (!sum || (permuted > 0 && permuted < kParts)) return std::nullopt;
    if (!lie_side_by_side(backward, pads, found.parts_first)) return std::nullopt;
    found.sum = *sum;
    return found;
  }

 private:
  /// Does it make [..., heads, L, E] of rows?
  static bool swaps_heads(const ir::Node& n) {
    if (n.op != Op::kPermute) return false;
    const Dims axes = axes_of(n);
    const int rank = axes.size();
    for (int i = 0; i < rank; ++i) {
      if (axes[i] != (i == rank - 3 ? rank - 2 : i == rank - 2 ? rank - 3 : i)) return false;
    }
    return true;
  }

  /// The result of the reshape or pad that alone reads `v`.
  ValueId follow(ValueId v, Joined& found) const {
    if (uses_[v] != 1) return ir::kNone;
    const ir::Node& user = g_.nodes[user_[v]];
    if (user.op != Op::kReshape && user.op != Op::kPad) return ir::kNone;
    found.between.push_back(user_[v]);
    return user.first_output;
  }

  /// The value that adds up these, which nothing else reads.
  std::optional<ValueId> sum_of(const std::array<ValueId, kParts>& pads, Joined& found) const {
    for (const ValueId p : pads) {
      if (uses_[p] != 1) return std::nullopt;
    }
    for (const ValueId p : pads) {
      const NodeId last = user_[p];
      const ValueId sum = g_.nodes[last].first_output;
      std::vector<ValueId> terms{sum};
      std::vector<NodeId> adds;
      for (size_t i = 0; i < terms.size();) {
        const ir::Node& n = g_.producer(terms[i]);
        if (n.op != Op::kAdd || (terms[i] != sum && uses_[terms[i]] != 1) || terms.size() > kParts) {
          ++i;
          continue;
        }
        adds.push_back(g_.info(terms[i]).node);
        terms[i] = n.inputs[0];
        terms.push_back(n.inputs[1]);
      }
      if (!std::ranges::is_permutation(terms, pads)) continue;
      std::erase(adds, last);
      found.between.insert(found.between.end(), adds.begin(), adds.end());
      return sum;
    }
    return std::nullopt;
  }

  /// Are the parts a third each of rows that are the same, or of the first axis, in the order of the results?
  bool lie_side_by_side(const ir::Node& backward, const std::array<ValueId, kParts>& pads, bool parts_first) {
    const auto is_zero = [](const Dim& d) { return d.is_constant() && d.value == 0; };
    const ir::SymDims whole = g_.shape(pads[0]);
    int axis = 0;
    while (axis < whole.size() && is_zero(PadAttributes(g_.producer(pads[0])).high[axis])) ++axis;
    if (axis == whole.size()) return false;
    std::vector<std::pair<Dim, Dim>> same;
    for (int i = 0; i < kParts; ++i) {
      const ir::Node& pad = g_.producer(pads[static_cast<size_t>(i)]);
      const PadAttributes a(pad);
      const ir::SymDims& part = g_.shape(pad.inputs[0]);
      if (a.fill != 0.0 || part.size() != whole.size()) return false;
      for (int k = 0; k < whole.size(); ++k) {
        if (k != axis && !(is_zero(a.low[k]) && is_zero(a.high[k]))) return false;
      }
      same.emplace_back(a.low[axis], g_.sym.mul(part[axis], i));
      same.emplace_back(whole[axis], g_.sym.mul(part[axis], kParts));
      const ir::SymDims &query = g_.shape(backward.inputs[1]),
                        &x = g_.shape(backward.inputs[static_cast<size_t>(i) + 1]);
      if (query.size() != x.size()) return false;
      for (int k = 0; k < x.size(); ++k) same.emplace_back(query[k], x[k]);
    }
    ir::SymDims result = g_.shape(backward.first_output);
    if (parts_first) {
      const int rank = result.size();
      std::swap(result[rank - 2], result[rank - 3]);
      if (axis != 0 || whole.size() != rank + 1 || g_.shape(g_.producer(pads[0]).inputs[0])[0].value != 1) return false;
      for (int k = 0; k < rank; ++k) same.emplace_back(whole[k + 1], result[k]);
    } else {
      Dim rows = 1, results = 1;
      for (int k = 0; k < axis; ++k) rows = g_.sym.mul(rows, whole[k]);
      for (int k = 0; k + 2 < result.size(); ++k) results = g_.sym.mul(results, result[k]);
      same.emplace_back(rows, results);
    }
    if (!std::ranges::all_of(same, [](const auto& s) { return s.first.value == s.second.value; })) return false;
    for (const auto& [a, b] : same) g_.sym.equal(a, b);
    return true;
  }

  ir::Graph& g_;
  std::vector<int> uses_;
  std::vector<NodeId> user_;  ///< by value: the last
};

}  // namespace

bool join_gradients(Program& program) {
  static Counter& count = counter("attention.joined");
  const auto is_backward = [](const ir::Node& n) { return n.op == Op::kFlashAttentionBackward; };
  if (std::ranges::none_of(program.graph.nodes, is_backward)) return false;
  ir::Graph& from = program.graph;
  from = ir::without_dead_code(from);
  Finder finder(from);
  std::vector<bool> left_out(from.nodes.size(), false);
  std::vector<bool> joined(from.nodes.size(), false);
  struct Source {
    ValueId result = ir::kNone;  ///< the backward's first
    bool parts_first = false;
  };
  std::vector<Source> sources(from.values.size());  // by sum
  for (size_t i = 0; i < from.nodes.size(); ++i) {
    const ir::Node& n = from.nodes[i];
    const std::optional<Joined> found = is_backward(n) ? finder.find(n) : std::nullopt;
    if (!found) continue;
    count.add();
    joined[i] = true;
    sources[found->sum] = {n.first_output, found->parts_first};
    for (const NodeId b : found->between) left_out[b] = true;
  }
  if (std::ranges::find(left_out, true) == left_out.end()) return false;

  from = ir::rewrite(from, [&](ir::Rewriter& r, const ir::Node& n) {
    if (left_out[r.index(n)]) return true;
    if (const Source& s = sources[n.first_output]; s.result != ir::kNone) {
      ir::Builder& builder = r.builder();
      const ir::Value whole = builder.wrap(r.now(s.result));
      const int rank = whole.rank();
      std::vector<int> axes{rank - 3};
      for (int k = 0; k < rank - 4; ++k) axes.push_back(k);
      for (const int axis : {rank - 2, rank - 4, rank - 1}) axes.push_back(axis);
      const ir::Value sum = s.parts_first ? builder.permute(whole, axes) : whole;
      r.set(n.first_output, builder.reshape(sum, from.shape(n.first_output)).id);
      return true;
    }
    if (!joined[r.index(n)]) return false;
    ir::ValueInfo info = from.info(n.first_output);
    info.shape.insert(info.shape.size() - 2, kParts);
    const ValueId all =
        r.to().append(Op::kFlashAttentionBackwardJoined, r.inputs(n), {n.attrs[0]}, {&info, 1}, n.origin);
    r.set(n.first_output, all);
    return true;
  });
  return true;
}

}  // namespace smolder::jit::cuda
