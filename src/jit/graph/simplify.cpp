#include "smolder/jit/graph/simplify.h"

#include <algorithm>
#include <string>

#include <absl/container/flat_hash_map.h>
#include "smolder/core/counters.h"
#include "smolder/ir/rewrite.h"
#include "smolder/jit/attributes.h"
#include "smolder/jit/device_target.h"
#include "smolder/jit/graph/decompose.h"
#include "smolder/jit/graph/join_pads.h"
#include "smolder/jit/graph/rules.h"
#include "smolder/jit/loop/loop_interpret.h"
#include "smolder/jit/switches.h"
#include "smolder/jit/view.h"

namespace smolder::jit {

using ir::Dim;
using ir::Op;
using ir::ValueId;

namespace {

/// Is every value of dtype `a` a value of `b`, so that casting there and on is casting on?
bool widens(DType a, DType b) {
  if (a == b || a == DType::kBool) return true;
  switch (b) {
    case DType::kFloat64:
      return a != DType::kInt64;
    case DType::kFloat32:
      return is_half(a) || itemsize(a) < 4;
    case DType::kFloat16:
    case DType::kBFloat16:
      return itemsize(a) == 1 && b == DType::kFloat16;
    case DType::kInt64:
      return !is_floating(a);
    case DType::kInt32:
      return !is_floating(a) && itemsize(a) < 4;
    case DType::kInt16:
      return !is_floating(a) && itemsize(a) == 1;
    default:
      return false;
  }
}

Counter& hits_of(const Rule& rule) { return counter("rule." + std::string(rule.name)); }

/// Builds the graph anew, each node as simple as it can be, and once.
class Simplifier {
 public:
  explicit Simplifier(const ir::Graph& from) : r_(from), g_(r_.to()), b_(r_.builder()) {}

  ir::Graph run() {
    const std::vector<bool> live = ir::live_nodes(r_.from());
    ir::rewrite_nodes(r_, [&](ir::Rewriter& r, const ir::Node& n) {
      if (!live[r.index(n)]) return true;
      origin_ = n.origin;
      r.set_results(n, add(n.op, r.inputs(n), n.attrs, r.results(n)));
      return true;
    });
    return r_.finish();
  }

 private:
  ValueId add(Op op, std::vector<ValueId> inputs, std::vector<Dim> attrs, std::span<const ir::ValueInfo> results) {
    if (results.size() == 1) {
      if (const ValueId v = moves_ ? moved(op, inputs, attrs, results[0]) : ir::kNone; v != ir::kNone) return v;
      if (const ValueId v = folds_ ? folded(op, inputs, results[0]) : ir::kNone; v != ir::kNone) return v;
    }
    const ir::OpFlags& flags = ir::info(op).flags;
    if (flags.random || flags.effect || op == Op::kBarrier) {
      return g_.append(op, std::move(inputs), std::move(attrs), results, origin_);
    }
    const uint64_t hash = hash_node(op, inputs, attrs, results[0]);
    auto [it, fresh] = known_.try_emplace(hash, ir::kNone);
    for (ir::NodeId i = merges_ ? it->second : ir::kNone; i != ir::kNone; i = next_[i]) {
      const ir::Node& n = g_.nodes[i];
      const ir::ValueInfo& r = g_.info(n.first_output);
      if (n.op == op && n.inputs == inputs && n.attrs == attrs && r.dtype == results[0].dtype &&
          r.weak == results[0].weak) {
        static Counter& merged = counter("simplify.merged");
        merged.add();
        return forwarded(n.first_output);
      }
    }
    const ValueId first = g_.append(op, std::move(inputs), std::move(attrs), results, origin_);
    const ir::NodeId node = g_.info(first).node;
    next_.resize(node + 1, ir::kNone);
    next_[node] = it->second;
    it->second = node;
    return rules_ && results.size() == 1 ? rewrite(first) : first;
  }

  /// Applies the rules to a value just added; returns the new value, or the same.
  ValueId rewrite(ValueId v) {
    for (const Rule* rule : rules_of(g_.op(v))) {
      Match match;
      if (picks_rules_ && is_disabled("rule." + std::string(rule->name))) continue;
      if (!matches(g_, *rule, v, match)) continue;
      const ir::ValueInfo result = g_.info(v);
      const ValueId made = build(rule->after, match, result);
      const ir::ValueInfo& got = g_.info(made);
      if (got.dtype != result.dtype || got.weak != result.weak || !(got.shape.values() == result.shape.values()))
        continue;
      hits_of(*rule).add();
      forward_.resize(v + 1, ir::kNone);
      forward_[v] = made;
      return made;
    }
    return v;
  }

  ValueId forwarded(ValueId v) const { return v < forward_.size() && forward_[v] != ir::kNone ? forward_[v] : v; }

  ValueId build(const Term& t, const Match& match, const ir::ValueInfo& result) {
    switch (t.kind) {
      case Term::kVariable:
        return match.variables[t.variable];
      case Term::kNumber: {
        const DType d = result.dtype;
        const Scalar number = d == DType::kBool ? Scalar(t.number != 0)
                              : is_floating(d)  ? Scalar(t.number)
                                                : Scalar(static_cast<int64_t>(t.number));
        return b_.expand(b_.constant(number, d), result.shape).id;
      }
      case Term::kOp:
        break;
    }
    std::vector<ValueId> inputs;
    for (const Term& x : t.operands) inputs.push_back(build(x, match, result));
    return add(t.op, std::move(inputs), {}, {&result, 1});
  }

  /// Movement and casts of what was moved or cast already.
  ValueId moved(Op op, const std::vector<ValueId>& inputs, const std::vector<Dim>& attrs, const ir::ValueInfo& result) {
    if (inputs.size() != 1 || inputs[0] == ir::kNone) return ir::kNone;
    const ValueId x = inputs[0];
    const ir::Node& inner = g_.producer(x);
    switch (op) {
      case Op::kCast: {
        if (g_.dtype(x) == result.dtype && !g_.info(x).weak) return x;
        if (inner.op != Op::kCast || g_.info(inner.inputs[0]).weak) return ir::kNone;
        if (!widens(g_.dtype(inner.inputs[0]), g_.dtype(x))) return ir::kNone;
        return add(op, {inner.inputs[0]}, attrs, {&result, 1});
      }
      case Op::kReshape: {
        if (g_.shape(x).size() == result.shape.size() &&
            std::equal(g_.shape(x).begin(), g_.shape(x).end(), result.shape.begin())) {
          return x;
        }
        if (inner.op != Op::kReshape) return ir::kNone;
        return add(op, {inner.inputs[0]}, attrs, {&result, 1});
      }
      case Op::kExpand:
        if (inner.op != Op::kExpand) return ir::kNone;
        return add(op, {inner.inputs[0]}, attrs, {&result, 1});
      case Op::kPermute: {
        std::vector<Dim> axes = attrs;
        const bool twice = inner.op == Op::kPermute;
        bool identity = true;
        for (size_t i = 1; i < axes.size(); ++i) {
          if (twice) axes[i] = inner.attrs[1 + axes[i].value];
          identity = identity && axes[i].value == static_cast<int64_t>(i) - 1;
        }
        if (identity) return twice ? inner.inputs[0] : x;
        return twice ? add(op, {inner.inputs[0]}, std::move(axes), {&result, 1}) : ir::kNone;
      }
      case Op::kSlice:
        return inner.op == Op::kCat || inner.op == Op::kWideCat ? part_of(inner, attrs) : ir::kNone;
      default:
        return ir::kNone;
    }
  }

  /// The operand of `cat` that a slice is: what a complex number's real or imaginary part is of.
  ValueId part_of(const ir::Node& cat, const std::vector<Dim>& slice) {
    const Dim axis = slice[0], start = slice[1], stop = slice[2], step = slice[3];
    if (!(cat.attrs[0] == axis) || !(step == Dim(1))) return ir::kNone;
    Dim at = 0;
    for (const ValueId part : cat.inputs) {
      const Dim end = b_.sym().add(at, g_.shape(part)[static_cast<int>(axis.value)]);
      if (at == start && end == stop) return part;
      at = end;
    }
    return ir::kNone;
  }

  /// Arithmetic on numbers known now, and their casts, which kernels do when they load them.
  ValueId folded(Op op, const std::vector<ValueId>& inputs, const ir::ValueInfo& result) {
    const bool cast = op == Op::kCast;
    if (!(cast || (result.weak && ir::is_elementwise_primitive(op))) || !result.shape.empty()) return ir::kNone;
    std::vector<Scalar> operands;
    DType t = DType::kBool;
    for (const ValueId x : inputs) {
      if (g_.op(x) != Op::kConstant || !g_.info(x).weak) return ir::kNone;
      operands.push_back(constant_of(g_.producer(x)));
      if (op != Op::kWhere || operands.size() > 1) t = promote(t, g_.dtype(x));
    }
    if (!cast) operands = {evaluate(op, result.dtype == DType::kBool ? t : result.dtype, operands)};
    static Counter& count = counter("simplify.folded");
    count.add();
    return add(Op::kConstant, {},
               {static_cast<int64_t>(operands[0].category()), static_cast<int64_t>(operands[0].bits())}, {&result, 1});
  }

  static uint64_t hash_node(Op op, const std::vector<ValueId>& inputs, const std::vector<Dim>& attrs,
                            const ir::ValueInfo& result) {
    uint64_t h = static_cast<uint64_t>(op) * 64 + static_cast<uint64_t>(result.dtype) * 2 + result.weak;
    const auto mix_in = [&](uint64_t w) { h = (h ^ w) * 0x9e3779b97f4a7c15ull, h ^= h >> 31; };
    for (const ValueId x : inputs) mix_in(x);
    for (const Dim& d : attrs) mix_in(static_cast<uint64_t>(d.value) * 31 + static_cast<uint64_t>(d.expr) + 1);
    return h;
  }

  // The rules that SMOLDER_DISABLE leaves on.
  const bool moves_ = !is_disabled("moves"), folds_ = !is_disabled("fold"), merges_ = !is_disabled("merge");
  const bool rules_ = !is_disabled("rules"), picks_rules_ = !disabled_names().empty();

  ir::Rewriter r_;
  ir::Graph& g_;
  ir::Builder& b_;
  ir::Origin origin_;
  absl::flat_hash_map<uint64_t, ir::NodeId> known_;  // the last node of each hash
  std::vector<ir::NodeId> next_;                     // by node: the one before with its hash
  std::vector<ValueId> forward_;                     // by value: what a rule made of it
};

}  // namespace

void simplify(Program& program) {
  if (!program.options.simplify) return remove_dead_code(program);
  const auto rewrite = [&] { program.graph = Simplifier(program.graph).run(); };
  rewrite();
  if (!is_disabled("join_pads") && join_pads(program)) {
    take_wide_cats_whole(program);
    rewrite();
  }
  DeviceTarget* const target = DeviceTarget::of(program.options.device.type);
  if (target && target->join_gradients(program)) rewrite();
}

void remove_dead_code(Program& program) { program.graph = ir::without_dead_code(program.graph); }

}  // namespace smolder::jit
