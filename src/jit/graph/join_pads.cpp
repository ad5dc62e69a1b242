#include "smolder/jit/graph/join_pads.h"

#include <algorithm>
#include <map>
#include <optional>

#include "smolder/core/counters.h"
#include "smolder/ir/rewrite.h"
#include "smolder/jit/attributes.h"
#include "smolder/jit/view.h"

namespace smolder::jit {

using ir::Dim;
using ir::NodeId;
using ir::Op;
using ir::Value;
using ir::ValueId;

namespace {

/// Fewer are elementwise in one kernel.
constexpr size_t kFewPads = 4;

struct Piece {
  ValueId value = ir::kNone;  ///< before it is padded
  Dim begin;                  ///< where it is put
};

/// The pieces of one axis that a value is the sum of, with nothing else.
struct Pieces {
  int axis = 0;
  std::vector<Piece> all;
};

/// The axis along which alone a node pads, with zeros in front and behind.
std::optional<int> padded_axis(const ir::Node& n) {
  if (n.op != Op::kPad) return std::nullopt;
  const PadAttributes a(n);
  std::optional<int> axis;
  for (int i = 0; i < a.low.size(); ++i) {
    if (a.low[i] == Dim(0) && a.high[i] == Dim(0)) continue;
    if (axis || a.low[i].value < 0 || a.high[i].value < 0) return std::nullopt;
    axis = i;
  }
  return a.fill == 0 ? axis : std::nullopt;
}

class PadJoiner {
 public:
  explicit PadJoiner(ir::Graph& g) : g_(g), uses_(g.values.size(), 0) {
    for (const ir::Node& n : g.nodes) {
      for (const ValueId x : n.inputs) {
        if (x != ir::kNone) ++uses_[x];
      }
    }
    for (const ValueId v : g.outputs) ++uses_[v];
  }

  bool run() {
    find();
    for (auto sum = sums_.begin(); sum != sums_.end();) {
      sum = sum->second.all.size() > kFewPads && lie_apart(sum->second) ? std::next(sum) : sums_.erase(sum);
    }
    if (sums_.empty()) return false;
    static Counter& joined = counter("compile.joined_pads");
    joined.add(static_cast<int64_t>(sums_.size()));
    rebuild();
    return true;
  }

 private:
  /// In program order, sums of pieces; one that is a part of another is not kept.
  void find() {
    for (const ir::Node& n : g_.nodes) {
      if (const std::optional<int> axis = padded_axis(n)) {
        sums_[n.first_output] = {*axis, {{n.inputs[0], PadAttributes(n).low[*axis]}}};
      } else if (n.op == Op::kAdd && n.inputs.size() == 2) {
        add(n);
      }
    }
  }

  void add(const ir::Node& n) {
    const auto a = sums_.find(n.inputs[0]), b = sums_.find(n.inputs[1]);
    if (a == sums_.end() || b == sums_.end() || a == b || a->second.axis != b->second.axis) return;
    if (uses_[a->first] != 1 || uses_[b->first] != 1 || is_bool(n)) return;
    Pieces &large = a->second.all.size() < b->second.all.size() ? b->second : a->second,
           &small = &large == &a->second ? b->second : a->second;
    large.all.insert(large.all.end(), small.all.begin(), small.all.end());
    Pieces sum = std::move(large);
    sums_.erase(a);
    sums_.erase(b);
    sums_[n.first_output] = std::move(sum);
  }

  bool is_bool(const ir::Node& n) const { return g_.dtype(n.first_output) == DType::kBool; }

  Dim end_of(const Pieces& sum, const Piece& p) { return g_.sym.add(p.begin, g_.shape(p.value)[sum.axis]); }

  /// Puts the pieces in the order of their places. False where two may share one, at other sizes too.
  bool lie_apart(Pieces& sum) {
    std::ranges::stable_sort(sum.all, {}, [](const Piece& p) { return p.begin.value; });
    for (size_t i = 1; i < sum.all.size(); ++i) {
      const Dim end = end_of(sum, sum.all[i - 1]), begin = sum.all[i].begin;
      if (end.value > begin.value || !g_.sym.less_equal(end, begin)) return false;
    }
    return true;
  }

  void rebuild() {
    g_ = ir::rewrite(g_, [&](ir::Rewriter& r, const ir::Node& n) {
      const auto sum = sums_.find(n.first_output);
      if (sum == sums_.end()) return false;
      r.set(n.first_output, side_by_side(r, sum->second, g_.shape(n.first_output)).id);
      return true;
    });
  }

  static Value side_by_side(ir::Rewriter& r, const Pieces& sum, const ir::SymDims& shape) {
    ir::Builder& b = r.builder();
    ir::SymTable& sym = b.sym();
    const DType dtype = r.from().dtype(sum.all[0].value);
    const Scalar zero = category(dtype) == Category::kFloat ? Scalar(0.0) : Scalar(int64_t{0});
    std::vector<Value> parts;
    Dim at = 0;
    const auto fill_to = [&](Dim end) {
      if (sym.known_equal(end, at) || sym.less_equal(end, at)) return;
      ir::SymDims gap = shape;
      gap[sum.axis] = sym.sub(end, at);
      parts.push_back(b.expand(b.constant(zero, dtype), gap));
    };
    for (const Piece& p : sum.all) {
      fill_to(p.begin);
      parts.push_back(b.wrap(r.now(p.value)));
      at = sym.add(p.begin, parts.back().shape()[sum.axis]);
    }
    fill_to(shape[sum.axis]);
    const Value joined = b.reshape(b.cat(parts, sum.axis), shape);
    // A sum with zeros is not -0.
    return b.elementwise_as(Op::kAdd, dtype, {joined, b.constant(zero)});
  }

  ir::Graph& g_;
  std::vector<int> uses_;
  std::map<ValueId, Pieces> sums_;  ///< by the value that is the sum
};

}  // namespace

bool join_pads(Program& program) { return PadJoiner(program.graph).run(); }

}  // namespace smolder::jit
