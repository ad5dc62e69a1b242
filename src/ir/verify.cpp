#include "smolder/ir/verify.h"

#include <algorithm>
#include <string>
#include <vector>

#include "smolder/ir/graph.h"
#include "smolder/ir/user_op.h"

namespace smolder::ir {
namespace {

/// Words that the signature reads, or -1 when they do not fit it.
int64_t words_of(const AttrInfo& a, std::span<const Dim> words) {
  const auto count_at = [&](size_t i) -> int64_t {
    if (i >= words.size() || !words[i].is_constant() || words[i].value < 0) return -1;
    return std::min(words[i].value, int64_t{1} << 32);  // more words than there are, as 1 + it is too
  };
  switch (a.kind) {
    case AttrKind::kInt:
    case AttrKind::kSize:
    case AttrKind::kFloat:
      return 1;
    case AttrKind::kBool:
      return count_at(0) == 0 || count_at(0) == 1 ? 1 : -1;
    case AttrKind::kString:
      return count_at(0) >= 0 && count_at(0) < static_cast<int64_t>(a.choices.size()) ? 1 : -1;
    case AttrKind::kDType:
      return count_at(0) >= 0 && count_at(0) < kNumDTypes ? 1 : -1;
    case AttrKind::kOptionalInt:
    case AttrKind::kOptionalSize:
    case AttrKind::kOptionalFloat:
      return count_at(0) == 0 || count_at(0) == 1 ? 2 : -1;
    case AttrKind::kOptionalDType:
      return count_at(0) == 0 || (count_at(0) == 1 && count_at(1) >= 0 && count_at(1) < kNumDTypes) ? 2 : -1;
    case AttrKind::kIntList:
    case AttrKind::kSizeList:
      return count_at(0) < 0 ? -1 : 1 + count_at(0);
    case AttrKind::kOptionalIntList:
      return (count_at(0) == 0 || count_at(0) == 1) && count_at(1) >= 0 ? 2 + count_at(1) : -1;
  }
  return -1;
}

std::string wrong_operands(const OpInfo& op, std::span<const ValueId> inputs) {
  const auto given = static_cast<int64_t>(inputs.size()), declared = static_cast<int64_t>(op.operands.size());
  int64_t list = -1;
  for (int64_t i = 0; i < declared; ++i) {
    if (op.operands[i].kind == OperandInfo::kTensorList) list = i;
  }
  if (list < 0 ? given != declared : given < declared - 1)
    return "has " + std::to_string(given) + " operands for " + std::string(op.signature);
  for (int64_t i = 0; i < given; ++i) {
    // Operand i of the signature: those after a list are counted from the end.
    const int64_t d = list < 0 || i < list ? i : i >= list + given - declared + 1 ? i - given + declared : list;
    if (inputs[i] == kNone && op.operands[d].kind != OperandInfo::kOptionalTensor)
      return "operand " + std::to_string(i) + " is absent";
  }
  return {};
}

std::string wrong_attributes(const OpInfo& op, std::span<const Dim> words) {
  for (const AttrInfo& a : op.attrs) {
    const int64_t used = words_of(a, words);
    if (used < 0 || used > static_cast<int64_t>(words.size()))
      return "its words are no value of attribute " + std::string(a.name);
    words = words.subspan(used);
  }
  return words.empty() ? "" : std::to_string(words.size()) + " attribute words too many";
}

class Verifier {
 public:
  explicit Verifier(const Graph& g, bool rules = true) : g_(g), rules_(rules) {}

  void verify() {
    expressions();
    ValueId next = 0;
    for (node_ = 0; node_ < g_.nodes.size(); ++node_) {
      const Node& n = g_.nodes[node_];
      check(n.first_output == next, "its first result is not the next value");
      next += n.num_outputs;
      check(next <= g_.values.size(), "its results are not values of the graph");
      node(n);
    }
    where_ = "graph";
    check(next == g_.values.size(), "values without a node");
    for (ValueId v : g_.outputs) check(v < g_.values.size(), "an output is not a value of the graph");
  }

 private:
  template <class... Parts>
  void check(bool holds, const Parts&... parts) const {
    if (holds) [[likely]]
      return;
    std::ostringstream what;
    what << "internal error: bad graph: ";
    if (where_) {
      what << where_;
    } else {
      const Op op = g_.nodes[node_].op;
      what << "node " << node_ << " (" << (known(op) ? name(op) : "?") << ")";
    }
    what << ": ";
    (what << ... << parts);
    throw InternalError(what.str());
  }

  static bool known(Op op) { return static_cast<int>(op) < kNumOps || is_registered(op); }

  void dim(const Dim& d) const {
    if (d.is_constant()) return;
    check(d.expr >= 0 && d.expr < static_cast<ExprId>(sample_.size()), "an extent names no expression of the graph");
    check(d.value == sample_[d.expr], "an extent has value ", d.value, ", its expression ", g_.sym.to_string(d), " is ",
          sample_[d.expr], " in the sample");
  }

  void expressions() {
    std::vector<int64_t> symbols(g_.sym.num_symbols(), 1);
    where_ = "sizes";
    for (const SymExpr& e : g_.sym.exprs()) {
      if (e.op != SymOp::kSymbol) continue;
      check(e.a.value >= 0 && e.a.value < g_.sym.num_symbols(), "no symbol s", e.a.value);
      symbols[e.a.value] = e.b.value;
    }
    SymTable::evaluate(g_.sym.exprs(), symbols, sample_);
    for (const Guard& g : g_.sym.guards()) {
      dim(g.a), dim(g.b);
      check(SymTable::holds(g, sample_), "a guard does not hold in the sample: ", g_.sym.to_string(g.a), " and ",
            g_.sym.to_string(g.b));
    }
    where_ = nullptr;
  }

  void node(const Node& n) const {
    check(known(n.op), "unknown op");
    const OpInfo& op = info(n.op);
    check(n.num_outputs == op.num_outputs, "has ", n.num_outputs, " results, its op ", int{op.num_outputs});
    for (ValueId v = n.first_output; v < n.first_output + n.num_outputs; ++v) {
      check(g_.values[v].node == node_, "its result %", v, " names node ", g_.values[v].node);
      check(!g_.values[v].weak || g_.values[v].shape.empty(), "a number has a shape");
      int64_t bytes = 8;  // of the widest dtype: rules may multiply extents before they look at dtypes
      for (const Dim& d : g_.values[v].shape) {
        dim(d);
        check(d.value >= 0, "negative extent");
        check(d.value == 0 || !__builtin_mul_overflow(bytes, d.value, &bytes), "more elements than memory has bytes");
      }
    }
    for (const Dim& d : n.attrs) dim(d);
    const std::string wrong = wrong_call(op, n.inputs, n.attrs);
    check(wrong.empty(), wrong);
    for (const ValueId v : n.inputs)
      check(v == kNone || v < n.first_output, "operand %", v, " is not defined before it");
    if (op.infer && rules_) results(n, op);
  }

  /// The result of the op's rule for the sample must be what is recorded.
  void results(const Node& n, const OpInfo& op) const {
    std::vector<Meta> inputs(n.inputs.size()), outputs(n.num_outputs);
    std::vector<const Meta*> pointers;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (n.inputs[i] != kNone) inputs[i] = meta(n.inputs[i]);
      pointers.push_back(n.inputs[i] == kNone ? nullptr : &inputs[i]);
    }
    std::vector<int64_t> attrs;
    for (const Dim& d : n.attrs) attrs.push_back(d.value);
    try {
      op.infer({pointers, attrs}, outputs.data());
    } catch (const Error& e) {
      check(false, "its rule rejects it: ", e.what());
    }
    for (int i = 0; i < n.num_outputs; ++i) {
      const Meta recorded = meta(n.first_output + i);
      check(outputs[i] == recorded, "result ", i, " is recorded as ", text(recorded), ", its rule says ",
            text(outputs[i]));
    }
  }

  Meta meta(ValueId v) const {
    const ValueInfo& i = g_.values[v];
    return {i.shape.values(), i.dtype, i.weak};
  }
  static std::string text(const Meta& m) {
    return (m.weak ? "weak " : "") + std::string(name(m.dtype)) + to_string(m.shape);
  }

  const Graph& g_;
  const bool rules_;
  NodeId node_ = 0;
  const char* where_ = nullptr;  ///< null: node `node_`
  std::vector<int64_t> sample_;  ///< value of every expression in the sample
};

}  // namespace

std::string wrong_call(const OpInfo& op, std::span<const ValueId> inputs, std::span<const Dim> words) {
  const std::string wrong = wrong_operands(op, inputs);
  return wrong.empty() ? wrong_attributes(op, words) : wrong;
}

void verify(const Graph& g) { Verifier(g).verify(); }
void verify_form(const Graph& g) { Verifier(g, false).verify(); }

}  // namespace smolder::ir
