#include "smolder/graph/state.h"

#include <algorithm>
#include <set>
#include <utility>

#include "smolder/autograd/control_flow.h"
#include "smolder/ir/attr_words.h"
#include "smolder/ir/control_flow.h"
#include "smolder/ir/infer.h"
#include "smolder/ir/rewrite.h"
#include "smolder/ir/verify.h"

#include "smolder/lazy/autocast.h"
#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/random.h"
#include "smolder/lazy/record.h"

namespace smolder::graph {
namespace {

using ir::Dim;
using ir::kNone;
using ir::Meta;
using ir::Node;
using ir::Op;
using ir::SymTable;
using ir::ValueId;

constexpr int kMostSymbols = 64;  ///< each is tried with several sizes when a graph is checked

/// Where each draw's op is, by the number of the draw: the first that has its seed.
std::vector<const Node*> draws_of(const ir::Graph& g) {
  std::vector<const Node*> out;
  for (const Node& n : g.nodes) {
    if (!ir::info(n.op).flags.random) continue;
    for (const ValueId v : n.inputs) {
      if (v == kNone || g.op(v) != Op::kParameter) continue;
      const auto draw = static_cast<size_t>(g.producer(v).attrs[0].value / 2);
      if (out.size() <= draw) out.resize(draw + 1);
      if (!out[draw]) out[draw] = &n;
    }
  }
  return out;
}

Meta meta_at(const ir::ValueInfo& info, const Instance& at) {
  Meta out{{}, info.dtype, info.weak};
  for (const Dim& d : info.shape) out.shape.push_back(at.value(d));
  return out;
}

/// Throws unless a tensor could have that many elements.
void check_elements(const Meta& m) {
  int64_t bytes = 8;
  for (const int64_t n : m.shape) {
    SMOLDER_CHECK(n >= 0 && (n == 0 || !__builtin_mul_overflow(bytes, n, &bytes)), RuntimeError, "a result of shape ",
                  m.shape, " is no tensor's");
  }
}

/// Throws for integers that no op has use for, whose products would not fit. The largest size stands for "to the end".
void check_words(const Node& n, std::span<const int64_t> words) {
  ir::for_each_attr(ir::info(n.op), words, [&](const ir::AttrInfo& a, size_t first, size_t count) {
    using K = ir::AttrKind;
    const bool size = a.kind == K::kSize || a.kind == K::kOptionalSize || a.kind == K::kSizeList;
    if (a.kind == K::kFloat || a.kind == K::kOptionalFloat) return;
    const int64_t most = int64_t{1} << (size ? 48 : 31);
    for (const int64_t v : words.subspan(first, count)) {
      SMOLDER_CHECK((v >= -most && v <= most) || (size && v == INT64_MAX), ValueError, "attribute '", a.name, "' is ",
                    v, ", which is too large");
    }
  });
}

/// Primitives that code generators make of ops: who writes them is trusted, and no function records them.
bool is_of_plans(Op op) {
  static constexpr std::string_view kNames[] = {"fma",       "iota",      "random_bits", "cast",         "reduce",
                                                "index_add", "index_set", "slice_write", "scatter_into", "scan",
                                                "sorted",    "dot",       "barrier",     "wide_cat"};
  const std::string_view name = ir::name(op);
  return (ir::info(op).flags.primitive && std::ranges::find(kNames, name) != std::end(kNames)) || op == Op::kTake ||
         name.starts_with("flash_attention");
}

bool is_number(const Node& n) { return n.op == Op::kConstant || n.op == Op::kParameter || n.op == Op::kExtent; }

/// Checks what ir::verify leaves to those who build graphs: numbering, and how leaves and numbers look.
class Checker {
 public:
  explicit Checker(const State& s) : s_(s), g_(s.ir) {}

  /// Checks a graph that control flow runs: leaves and numbers in order, and nothing that only plans have.
  void check_subgraph() {
    uint64_t leaves = 0;
    int64_t last = -1;
    for (const Node& n : g_.nodes) {
      if (n.op == Op::kLeaf) {
        require(n, constant(n, 0) == leaves++, "its leaves are numbered in order");
      } else if (n.op == Op::kParameter) {
        require(n, static_cast<int64_t>(constant(n, 0)) > last, "its numbers are numbered in order");
        require(n,
                g_.values[n.first_output].dtype ==
                    Scalar::from_bits(0, static_cast<Category>(constant(n, 1))).dtype(DType::kFloat64),
                "a number is of its category");
        last = n.attrs[0].value;
        require(n, last < 65536 && g_.values[n.first_output].weak && g_.values[n.first_output].shape.empty(),
                "a number is a number");
      } else {
        require(n, ir::info(n.op).infer && !is_of_plans(n.op) && n.op != Op::kExtent, "is no op that a subgraph holds");
        operands(n);
        std::vector<int64_t> words;
        for (const Dim& d : n.attrs) words.push_back(d.value);
        check_words(n, words);
      }
    }
    for (const ValueId v : g_.outputs) {
      SMOLDER_CHECK(!g_.values[v].weak, ValueError, "graph: a subgraph returns a number");
    }
  }

  void check() {
    names();
    const size_t leaves = s_.inputs.size() + s_.weights.size();
    std::vector<bool> leaf(leaves), draw;
    for (const Node& n : g_.nodes) {
      if (n.op == Op::kLeaf) {
        const uint64_t number = constant(n, 0);
        require(n, number < leaves, "there is no input or weight ", number);
        require(n, !leaf[number], "input or weight ", number, " is there twice");
        leaf[number] = true;
        require(n, !g_.values[n.first_output].weak, "an input or weight is a tensor");
      } else if (n.op == Op::kConstant) {
        const ir::ValueInfo& v = g_.values[n.first_output];
        const auto category = static_cast<Category>(constant(n, 0));
        require(n, n.attrs[1].is_constant(), "a constant is no size");
        require(n, v.weak && v.shape.empty() && v.dtype == Scalar::from_bits(0, category).dtype(DType::kFloat64),
                "a constant is a number of its category");
      } else if (n.op == Op::kParameter) {
        parameter(n);
      } else {
        require(n, ir::info(n.op).infer && !is_of_plans(n.op), "is no op that a graph holds");
        operands(n);
      }
    }
    const auto absent = std::ranges::find(leaf, false);
    SMOLDER_CHECK(absent == leaf.end(), ValueError, "graph: nothing reads input or weight ", absent - leaf.begin(),
                  ": it has no leaf");
    for (const ValueId v : g_.outputs) {
      SMOLDER_CHECK(!g_.values[v].weak, ValueError, "graph: output %", v, " is a number, not a tensor");
    }
    draws();
    symbols();
  }

 private:
  template <class... Parts>
  void require(const Node& n, bool holds, const Parts&... parts) const {
    SMOLDER_CHECK(holds, ValueError, "graph: ", node_name(s_, n), ": ", parts...);
  }
  uint64_t constant(const Node& n, size_t word) const {
    require(n, n.attrs[word].is_constant() && n.attrs[word].value >= 0, "its number is no number");
    return static_cast<uint64_t>(n.attrs[word].value);
  }

  /// Checks that operands are numbers where the op's signature has numbers, and tensors where it has tensors.
  void operands(const Node& n) const {
    if (ir::is_control_flow(n.op)) return;  // whose rules look for themselves

    const ir::OpInfo& op = ir::info(n.op);
    const auto given = static_cast<int64_t>(n.inputs.size()), declared = static_cast<int64_t>(op.operands.size());
    int64_t list = declared;
    for (int64_t i = 0; i < declared; ++i) {
      if (op.operands[i].kind == ir::OperandInfo::kTensorList) list = i;
    }
    for (int64_t i = 0; i < given; ++i) {
      if (n.inputs[i] == kNone) continue;
      const int64_t after = i - given + declared;  // those after a list are counted from the end
      const ir::OperandInfo& o = op.operands[i <= list ? i : std::max(after, list)];
      const bool number = g_.values[n.inputs[i]].weak;
      require(n, o.kind == ir::OperandInfo::kTensorOrNumber || number == (o.kind == ir::OperandInfo::kNumber),
              "operand %", n.inputs[i], " is a ", number ? "number" : "tensor", ", and '", o.name, "' is a ",
              number ? "tensor" : "number");
    }
  }

  void names() const {
    std::set<std::string> seen;
    for (const std::string& name : s_.inputs) {
      SMOLDER_CHECK(seen.insert(name).second, ValueError, "graph: two inputs or weights are called '", name, "'");
    }
    for (const Weight& w : s_.weights) {
      SMOLDER_CHECK(seen.insert(w.name).second, ValueError, "graph: two inputs or weights are called '", w.name, "'");
    }
    SMOLDER_CHECK(s_.outputs.size() == g_.outputs.size(), ValueError, "graph: ", s_.outputs.size(),
                  " outputs have names, ", g_.outputs.size(), " are returned");
    SMOLDER_CHECK(g_.sym.num_symbols() <= kMostSymbols, ValueError, "graph: there are ", g_.sym.num_symbols(),
                  " dynamic sizes, and at most ", kMostSymbols, " are supported");
    SMOLDER_CHECK(static_cast<int>(s_.symbols.size()) == g_.sym.num_symbols(), ValueError, "graph: ", s_.symbols.size(),
                  " dynamic sizes have names, there are ", g_.sym.num_symbols());
  }

  /// One of a pair: an int, read as seed or offset of a random op.
  void parameter(const Node& n) {
    const uint64_t number = constant(n, 0);
    require(n, number < 2 * g_.nodes.size(), "draws are numbered in order");
    const ir::ValueInfo& v = g_.values[n.first_output];
    require(n, v.weak && v.shape.empty() && v.dtype == DType::kInt64 && constant(n, 1) == uint64_t{1},
            "a seed or offset is an int");
  }

  void draws() const {
    const std::vector<const Node*> found = draws_of(g_);
    for (size_t d = 0; d < found.size(); ++d) {
      SMOLDER_CHECK(found[d], ValueError, "graph: draws are numbered in order, and there is no draw ", d);
    }
    for (const Node& n : g_.nodes) {
      const ir::OpInfo& op = ir::info(n.op);
      for (size_t i = 0; i < n.inputs.size(); ++i) {
        if (n.inputs[i] == kNone || g_.op(n.inputs[i]) != Op::kParameter) continue;
        require(n, !ir::is_control_flow(n.op), "control flow that draws random numbers cannot be captured");
        const bool named = op.flags.random && i < op.operands.size();
        const std::string_view name = named ? op.operands[i].name : "";
        const auto at = g_.producer(n.inputs[i]).attrs[0].value;
        require(n, name == (at % 2 ? "offset" : "seed"), "%", n.inputs[i], " is the ", at % 2 ? "offset" : "seed",
                " of a draw, which nothing else may read");
      }
    }
  }

  /// Each is the size of an input, or nobody could say what it is.
  void symbols() const {
    std::vector<bool> bound(g_.sym.num_symbols());
    for (const Node& n : g_.nodes) {
      if (n.op != Op::kLeaf || constant(n, 0) >= s_.inputs.size()) continue;
      for (const Dim& d : g_.values[n.first_output].shape) {
        if (!d.is_constant() && g_.sym.exprs()[d.expr].op == ir::SymOp::kSymbol) {
          bound[g_.sym.exprs()[d.expr].a.value] = true;
        }
      }
    }
    const auto free = std::ranges::find(bound, false);
    SMOLDER_CHECK(free == bound.end(), ValueError, "graph: '", s_.symbols[free - bound.begin()],
                  "' is the size of no input, or it is 0 or 1 in the graph, which is not dynamic");
  }

  const State& s_;
  const ir::Graph& g_;
};

}  // namespace

std::vector<ValueId> State::leaves() const {
  std::vector<ValueId> out(inputs.size() + weights.size(), kNone);
  for (const Node& n : ir.nodes) {
    if (n.op == Op::kLeaf) out[n.attrs[0].value] = n.first_output;
  }
  return out;
}

std::string State::size_text(const Dim& d) const {
  const std::string text = ir.sym.to_string(d);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool symbol = text[i] == 's' && i + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[i + 1]));
    if (!symbol) {
      out += text[i];
      continue;
    }
    size_t number = 0;
    for (; i + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[i + 1])); ++i) {
      number = 10 * number + static_cast<size_t>(text[i + 1] - '0');
    }
    out += number < symbols.size() ? symbols[number] : "s" + std::to_string(number);
  }
  return out;
}

std::string node_name(const State& s, const Node& n) {
  std::string out = n.num_outputs > 0 ? "%" + std::to_string(n.first_output) : "a node";
  out += " (" + std::string(ir::name(n.op)) + ")";
  const uint32_t source = n.origin.source;
  if (source > 0 && source <= s.sources.size()) out += ", " + s.sources[source - 1];
  return out;
}

Instance infer(const State& s, const std::vector<int64_t>& symbols) {
  Instance out;
  SymTable::evaluate(s.ir.sym.exprs(), symbols, out.exprs);
  out.words.resize(s.ir.nodes.size());
  out.metas.resize(s.ir.values.size());
  std::vector<const Meta*> inputs;
  for (size_t i = 0; i < s.ir.nodes.size(); ++i) {
    const Node& n = s.ir.nodes[i];
    for (const Dim& d : n.attrs) out.words[i].push_back(out.value(d));
    const ir::OpInfo& op = ir::info(n.op);
    if (!op.infer) {
      out.metas[n.first_output] = meta_at(s.ir.values[n.first_output], out);
      check_elements(out.metas[n.first_output]);
      continue;
    }
    inputs.clear();
    for (const ValueId v : n.inputs) inputs.push_back(v == kNone ? nullptr : &out.metas[v]);
    try {
      check_words(n, out.words[i]);
      op.infer({inputs, out.words[i]}, &out.metas[n.first_output]);
      for (uint32_t k = 0; k < n.num_outputs; ++k) check_elements(out.metas[n.first_output + k]);
    } catch (const Error& e) {
      e.raise_with(node_name(s, n) + ": " + e.what());
    }
  }
  return out;
}

namespace {

/// Calls what says of graphs that are not ours that they are bad, which is the user's mistake, or a file's.
void verify_foreign(const ir::Graph& g, void (*verify)(const ir::Graph&)) {
  try {
    verify(g);
  } catch (const InternalError& e) {
    std::string what = e.what();
    const std::string_view ours = "internal error: bad graph: ";
    if (what.starts_with(ours)) what = what.substr(ours.size());
    throw ValueError("graph: " + what);
  }
}

/// Checks what rules rely on.
void check_form(const State& s) {
  verify_foreign(s.ir, &ir::verify_form);
  Checker(s).check();
}

}  // namespace

void check_subgraph(const ir::Graph& g) {
  verify_foreign(g, &ir::verify_form);
  State s;
  s.ir = g;
  Checker(s).check_subgraph();
  verify_foreign(g, &ir::verify);
}

void infer_shapes(State& s) {
  check_form(s);
  std::vector<std::vector<int64_t>> at;
  std::vector<Instance> instances;
  for (std::vector<int64_t>& symbols : trials(s.ir.sym)) {
    try {
      instances.push_back(infer(s, symbols));
      at.push_back(std::move(symbols));
    } catch (const Error&) {
      if (instances.empty()) throw;  // at the sizes of the sample
    }
  }
  std::vector<Dim> symbols(s.ir.sym.num_symbols());
  for (size_t e = 0; e < s.ir.sym.exprs().size(); ++e) {
    const ir::SymExpr& x = s.ir.sym.exprs()[e];
    if (x.op == ir::SymOp::kSymbol) symbols[x.a.value] = {x.b.value, static_cast<ir::ExprId>(e)};
  }
  for (const Node& n : s.ir.nodes) {
    if (!ir::info(n.op).infer) continue;
    const std::vector<KnownSize> nearby =
        sizes_read(s, n, at.size(), [&](size_t a, ValueId v, int d) { return instances[a].metas[v].shape[d]; });
    for (ValueId v = n.first_output; v < n.first_output + n.num_outputs; ++v) {
      const Meta& sample = instances[0].metas[v];
      ir::ValueInfo& info = s.ir.values[v];
      info.dtype = sample.dtype;
      info.weak = sample.weak;
      info.shape = {};
      for (int d = 0; d < sample.shape.size(); ++d) {
        std::vector<int64_t> extents;
        for (const Instance& i : instances) {
          SMOLDER_CHECK(i.metas[v].shape.size() == sample.shape.size(), ValueError, node_name(s, n),
                        " has another number of dimensions for other sizes");
          extents.push_back(i.metas[v].shape[d]);
        }
        const std::optional<Dim> extent = fit(s.ir.sym, symbols, at, extents, nearby);
        SMOLDER_CHECK(extent, ValueError, node_name(s, n), ": dimension ", d,
                      " follows from the dynamic sizes in no way that a graph expresses");
        info.shape.push_back(*extent);
      }
    }
  }
}

void check(const State& s) {
  check_form(s);
  bool sample = true;
  for (const std::vector<int64_t>& symbols : trials(s.ir.sym)) {
    Instance found;
    try {
      found = infer(s, symbols);
    } catch (const Error& e) {
      if (sample) throw ValueError(std::string("graph: ") + e.what());
      continue;
    }
    sample = false;
    for (const Node& n : s.ir.nodes) {
      for (ValueId v = n.first_output; v < n.first_output + n.num_outputs; ++v) {
        const Meta recorded = meta_at(s.ir.values[v], found);
        SMOLDER_CHECK(recorded == found.metas[v], ValueError, "graph: ", node_name(s, n), ": %", v, " is said to be ",
                      ir::to_string(recorded), " at other sizes, its rule says ", ir::to_string(found.metas[v]));
      }
    }
  }
  const std::vector<ValueId> leaves = s.leaves();
  for (size_t w = 0; w < s.weights.size(); ++w) {
    const Tensor& t = s.weights[w].tensor;
    if (!t.defined()) continue;
    const Meta declared = meta_at(s.ir.values[leaves[s.inputs.size() + w]], {});
    SMOLDER_CHECK(t.meta() == declared, ValueError, "graph: weight '", s.weights[w].name, "' is ",
                  ir::to_string(t.meta()), ", the graph has it as ", ir::to_string(declared));
  }
}

std::vector<int64_t> bind_symbols(const State& s, const std::vector<Tensor>& inputs) {
  SMOLDER_CHECK(inputs.size() == s.inputs.size(), TypeError, "this graph takes ", s.inputs.size(), " tensors, got ",
                inputs.size());
  const std::vector<ValueId> leaves = s.leaves();
  constexpr int64_t kUnbound = -1;
  std::vector<int64_t> out(s.ir.sym.num_symbols(), kUnbound);
  const auto refuse = [&](size_t i, int d, const std::string& why) {
    std::string shape;
    for (const Dim& e : s.ir.shape(leaves[i])) shape += (shape.empty() ? "" : ", ") + s.size_text(e);
    raise<RuntimeError>("input '", s.inputs[i], "' is [", shape, "] ", name(s.ir.dtype(leaves[i])), ", got ",
                        ir::to_string(inputs[i].meta()), d >= 0 ? ": dimension " + std::to_string(d) : "", why);
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ir::ValueInfo& info = s.ir.info(leaves[i]);
    SMOLDER_CHECK(inputs[i].dtype() == info.dtype, TypeError, "input '", s.inputs[i], "' is ", name(info.dtype),
                  ", got ", name(inputs[i].dtype()));
    if (inputs[i].dim() != info.shape.size()) refuse(i, -1, "");
    for (int d = 0; d < info.shape.size(); ++d) {
      const Dim& e = info.shape[d];
      const int64_t extent = inputs[i].shape()[d];
      if (e.is_constant()) {
        if (e.value != extent) refuse(i, d, " is fixed");
      } else if (const ir::SymExpr& x = s.ir.sym.exprs()[e.expr]; x.op == ir::SymOp::kSymbol) {
        int64_t& known = out[x.a.value];
        if (known != kUnbound && known != extent) refuse(i, d, " was " + std::to_string(known) + " before");
        known = extent;
      }
    }
  }
  std::vector<int64_t> evaluated;
  SymTable::evaluate(s.ir.sym.exprs(), out, evaluated);
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (int d = 0; d < inputs[i].dim(); ++d) {
      const int64_t expected = SymTable::value(s.ir.shape(leaves[i])[d], evaluated);
      if (expected != inputs[i].shape()[d]) refuse(i, d, " would have to be " + std::to_string(expected));
    }
  }
  for (const ir::Guard& g : s.ir.sym.guards()) {
    SMOLDER_CHECK(SymTable::holds(g, evaluated), RuntimeError, "this graph holds only where ", s.size_text(g.a),
                  g.kind == ir::GuardKind::kEqual       ? " == "
                  : g.kind == ir::GuardKind::kNotEqual  ? " != "
                  : g.kind == ir::GuardKind::kLessEqual ? " <= "
                                                        : " > ",
                  s.size_text(g.b), ", got ", SymTable::value(g.a, evaluated), " and ",
                  SymTable::value(g.b, evaluated));
  }
  return out;
}

std::vector<Tensor> record_ops(const State& s, const Instance& at, const std::vector<Tensor>& inputs,
                               const std::vector<Tensor>& weights) {
  const lazy::NoAutocast plain;  // what was cast when it was captured is cast by ops of the graph
  const Tensor* const first = !inputs.empty() ? &inputs[0] : !weights.empty() ? &weights[0] : nullptr;
  const lazy::DeviceMode where(first ? first->device() : lazy::creation_mode());
  std::vector<Tensor> tensors(s.ir.values.size());
  std::vector<std::optional<Scalar>> numbers(s.ir.values.size());
  std::vector<std::pair<Scalar, Scalar>> drawn;
  for (const Node* const n : draws_of(s.ir)) {
    drawn.push_back(default_generator().take(smolder::numel(at.metas[n->first_output].shape)));
  }
  for (size_t i = 0; i < s.ir.nodes.size(); ++i) {
    const Node& n = s.ir.nodes[i];
    if (n.op == Op::kLeaf) {
      const auto number = static_cast<size_t>(n.attrs[0].value);
      tensors[n.first_output] = number < inputs.size() ? inputs[number] : weights[number - inputs.size()];
    } else if (n.op == Op::kConstant) {
      numbers[n.first_output] =
          Scalar::from_bits(static_cast<uint64_t>(n.attrs[1].value), static_cast<Category>(n.attrs[0].value));
    } else if (n.op == Op::kExtent) {
      numbers[n.first_output] = Scalar(at.words[i][0]);
    } else if (n.op == Op::kParameter) {
      const auto& [seed, offset] = drawn[n.attrs[0].value / 2];
      numbers[n.first_output] = n.attrs[0].value % 2 ? offset : seed;
    } else {
      std::vector<lazy::Operand> operands;
      for (const ValueId v : n.inputs) {
        operands.push_back(v == kNone   ? lazy::Operand::none()
                           : numbers[v] ? lazy::Operand(*numbers[v])
                                        : lazy::Operand(tensors[v]));
      }
      try {
        if (ir::is_control_flow(n.op)) {
          std::ranges::copy(autograd::call_control_flow(n.op, operands, at.words[i]), &tensors[n.first_output]);
        } else {
          lazy::record(n.op, operands, at.words[i], &tensors[n.first_output]);
        }
      } catch (const ForeignError&) {
        throw;
      } catch (const Error& e) {
        e.raise_with(node_name(s, n) + ": " + e.what());
      }
    }
  }
  std::vector<Tensor> out;
  for (const ValueId v : s.ir.outputs) out.push_back(tensors[v]);
  return out;
}

int drop_dead(State& s) {
  std::vector<bool> needed(s.ir.values.size());
  for (const ValueId v : s.ir.outputs) needed[v] = true;
  const auto stays = [&](const Node& n) {
    if (n.op == Op::kLeaf) return n.attrs[0].value < static_cast<int64_t>(s.inputs.size()) || needed[n.first_output];
    for (ValueId v = n.first_output; v < n.first_output + n.num_outputs; ++v) {
      if (needed[v]) return true;
    }
    return ir::info(n.op).flags.effect;
  };
  for (size_t i = s.ir.nodes.size(); i-- > 0;) {
    if (!stays(s.ir.nodes[i])) continue;
    for (const ValueId v : s.ir.nodes[i].inputs) {
      if (v != kNone) needed[v] = true;
    }
  }
  std::vector<Weight> weights;
  std::vector<int64_t> draws;
  int dropped = 0;
  s.ir = ir::rewrite(s.ir, [&](ir::Rewriter& r, const Node& old) {
    if (!stays(old)) {
      dropped += !is_number(old) && old.op != Op::kLeaf;
      return true;
    }
    Node n = old;
    if (n.op == Op::kLeaf && n.attrs[0].value >= static_cast<int64_t>(s.inputs.size())) {
      weights.push_back(s.weights[n.attrs[0].value - s.inputs.size()]);
      n.attrs[0] = static_cast<int64_t>(s.inputs.size() + weights.size() - 1);
    } else if (n.op == Op::kParameter) {
      const int64_t draw = n.attrs[0].value / 2;
      const auto known = std::ranges::find(draws, draw);
      const auto number = known - draws.begin();
      if (known == draws.end()) draws.push_back(draw);
      n.attrs[0] = 2 * number + n.attrs[0].value % 2;
    }
    r.copy(n);
    return true;
  });
  s.weights = std::move(weights);
  return dropped;
}

}  // namespace smolder::graph
