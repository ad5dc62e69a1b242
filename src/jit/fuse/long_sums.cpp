#include "smolder/jit/fuse/long_sums.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace smolder::jit {

using ir::NodeId;
using ir::Op;
using ir::ValueId;

namespace {

/// Fewer alike terms are not cut, and of values that no cache holds not even as many as one kernel adds up.
constexpr size_t kFewTerms = 8, kFewLargeTerms = 48;
constexpr int64_t kLargeTerm = 1 << 20;  // bytes
/// How many terms a kernel adds up. The last term gets a kernel of its own, which what follows the sum can join.
constexpr std::array<size_t, 3> kTermsOfKernels = {16, 4, 1};

class SumCutter {
 public:
  SumCutter(const ir::Graph& g, const FuseGraph& f, std::vector<bool>& apart)
      : g_(g), f_(f), apart_(apart), before_(g.nodes.size(), ir::kNone) {}

  void run() {
    const size_t n = g_.nodes.size();
    std::vector<int> length(n, 0);
    std::vector<bool> goes_on(n, false);
    for (NodeId i = 0; i < n; ++i) {
      if (!is_sum(i)) continue;
      length[i] = 1;
      for (const int id : f_.in[i]) {
        const NodeId from = f_.edges[id].from;
        if (!is_read_here_alone(f_.edges[id]) || length[from] < length[i]) continue;
        length[i] = length[from] + 1;
        before_[i] = from;
      }
      if (before_[i] != ir::kNone) goes_on[before_[i]] = true;
    }
    for (NodeId i = 0; i < n; ++i) {
      if (length[i] >= static_cast<int>(kFewTerms) && !goes_on[i]) cut(i);
    }
  }

 private:
  /// A term of a sum that goes on: equal ones are terms of one loop.
  using Term = std::pair<Op, uint32_t>;

  bool is_sum(NodeId i) const { return f_.computes[i] && g_.nodes[i].op == Op::kAdd && f_.in[i].size() == 2; }

  bool is_read_here_alone(const Edge& e) const {
    return e.from != ir::kNone && e.kind == EdgeKind::kSame && is_sum(e.from) && f_.out[e.from].size() == 1 &&
           !f_.asked[e.value];
  }

  Term term_of(NodeId sum) const {
    const Edge& first = f_.edges[f_.in[sum][0]];
    const Edge& term = first.from == before_[sum] ? f_.edges[f_.in[sum][1]] : first;
    const ir::Node& n = g_.producer(term.value);
    return {n.op, n.origin.source};
  }

  /// Cuts the sum that ends in `last`, term after term, wherever enough alike ones follow each other.
  void cut(NodeId last) {
    std::vector<NodeId> sums;
    for (NodeId i = last; i != ir::kNone; i = before_[i]) sums.push_back(i);
    std::ranges::reverse(sums);
    for (size_t begin = 0; begin < sums.size();) {
      const Term term = term_of(sums[begin]);
      size_t end = begin + 1;
      while (end < sums.size() && term_of(sums[end]) == term) ++end;
      cut(std::span(sums).subspan(begin, end - begin));
      begin = end;
    }
  }

  void cut(std::span<const NodeId> alike) {
    const bool is_large = bytes_of(g_, g_.nodes[alike.back()].first_output) > kLargeTerm;
    if (alike.size() < (is_large ? kFewLargeTerms : kFewTerms)) return;
    size_t at = 0;
    for (const size_t terms : kTermsOfKernels) {
      for (; at + terms < alike.size(); at += terms) apart_[g_.nodes[alike[at + terms - 1]].first_output] = true;
    }
  }

  const ir::Graph& g_;
  const FuseGraph& f_;
  std::vector<bool>& apart_;
  std::vector<NodeId> before_;  ///< by node that adds: the one whose sum it goes on with
};

}  // namespace

void cut_long_sums(const ir::Graph& g, const FuseGraph& graph, std::vector<bool>& apart) {
  SumCutter(g, graph, apart).run();
}

}  // namespace smolder::jit
