// Graphs of recorded steps: made of nodes or of text, checked, and compared.
#include <algorithm>
#include <unordered_map>

#include "smolder/graph/state.h"
#include "smolder/ir/attr_words.h"
#include "smolder/ir/builder.h"
#include "smolder/ir/control_flow.h"
#include "smolder/ir/infer.h"
#include "smolder/ir/user_op.h"
#include "smolder/ir/verify.h"
#include "smolder/lazy/extract.h"
#include "smolder/lazy/recompile.h"
#include "smolder/lazy/tape.h"
#include "src/replay.h"

namespace smolder::python {
namespace {

/// Nodes of plans are no nodes of steps: they say where in memory things are, which nothing checks.
void check_recordable(ir::Op op) {
  const ir::OpInfo& row = ir::info(op);
  SMOLDER_CHECK(row.infer && (row.decompose || ir::is_user_op(op) || ir::is_control_flow(op)), ValueError, "`",
                row.name, "` is no op that a step records");
}

/// Throws ValueError where an op takes a tensor for a number: shape rules trust that nothing records that.
void check_numbers(const ir::OpInfo& op, const ir::Graph& g, const std::vector<ir::ValueId>& inputs) {
  if (op.operands.size() != inputs.size()) return;  // it has a list, and then no numbers before it
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool number = inputs[i] != ir::kNone && g.info(inputs[i]).weak;
    SMOLDER_CHECK(number || op.operands[i].kind != ir::OperandInfo::kNumber, ValueError, "graph text: `", op.name,
                  "` takes a number as ", op.operands[i].name);
  }
}

/// Throws ValueError where rules could not be relied on: a file says what it likes.
void check_graph(const ir::Graph& g) {
  try {
    ir::verify(g);
  } catch (const InternalError& e) {
    raise<ValueError>(e.what());
  }
}

std::string attrs_text(const ir::OpInfo& row, const std::vector<int64_t>& words) {
  std::string out;
  ir::for_each_attr(row, words, [&](const ir::AttrInfo& a, size_t first, size_t count) {
    out += (out.empty() ? "" : ", ") + std::string(a.name) + "=" +
           ir::attr_text(a, std::span(words).subspan(first, count));
  });
  return out;
}

/// Throws ValueError for a leaf that is a number, and a number that is none or of a dtype that numbers do not have.
void check_source(const ir::Graph& g, const ir::Node& n) {
  const bool number = n.op == ir::Op::kParameter;
  for (ir::ValueId v = n.first_output; v < n.first_output + n.num_outputs; ++v) {
    const ir::ValueInfo& info = g.info(v);
    const bool fits =
        !number || info.dtype == DType::kFloat64 || info.dtype == DType::kInt64 || info.dtype == DType::kBool;
    SMOLDER_CHECK(info.weak == number && fits, ValueError, "graph text: `", ir::name(n.op), "` is ",
                  info.weak ? "a number of " : "a tensor of ", name(info.dtype));
  }
}

/// A graph as the tape has steps: numbers have no value numbers there.
/// `modes`: under what each op was recorded; empty for nothing.
lazy::Trace trace_of(const ir::Graph& g, const std::vector<uint8_t>& modes, std::vector<uint32_t>& produced) {
  lazy::Trace t;
  std::vector<lazy::OperandWord> words(g.values.size());
  for (const ir::Node& n : g.nodes) {
    if (n.op == ir::Op::kParameter) {
      words[n.first_output] = lazy::number_word(static_cast<Category>(n.attrs[1].value));
      continue;
    }
    for (uint32_t i = 0; i < n.num_outputs; ++i) {
      const ir::ValueId v = n.first_output + i;
      words[v] = static_cast<lazy::OperandWord>(t.metas.size());
      t.metas.push_back(lazy::intern({g.shape(v).values(), g.dtype(v)}));
      t.is_leaf.push_back(n.op == ir::Op::kLeaf);
    }
    if (n.op == ir::Op::kLeaf) continue;
    const uint8_t mode = t.instrs.size() < modes.size() ? modes[t.instrs.size()] : 0;
    t.instrs.push_back({n.op, static_cast<uint16_t>(n.inputs.size()), static_cast<uint16_t>(n.attrs.size()),
                        static_cast<uint8_t>(n.num_outputs), mode, static_cast<uint32_t>(t.operands.size()),
                        static_cast<uint32_t>(t.attrs.size()), words[n.first_output], n.origin.source});
    for (const ir::ValueId v : n.inputs) t.operands.push_back(v == ir::kNone ? lazy::kNoOperand : words[v]);
    for (const ir::Dim& d : n.attrs) t.attrs.push_back(d.value);
  }
  for (const ir::ValueId v : g.outputs) produced.push_back(words[v]);
  return t;
}

}  // namespace

ReplayGraph::ReplayGraph(const std::vector<PlainNode>& nodes, const std::vector<int64_t>& outputs) {
  for (const PlainNode& n : nodes) append(n);
  for (const int64_t v : outputs) {
    SMOLDER_CHECK(v >= 0 && v < static_cast<int64_t>(graph.values.size()), ValueError, "output %", v, " is no value");
    SMOLDER_CHECK(!graph.info(v).weak, ValueError, "output %", v, " is a number");
    graph.outputs.push_back(static_cast<ir::ValueId>(v));
  }
  check_graph(graph);
}

ir::Dim ReplayGraph::symbol(int64_t size) {
  symbols.push_back(size);
  return graph.sym.symbol(size);
}

void ReplayGraph::append(const PlainNode& plain) {
  const auto& [op_name, operands, words, meta, source] = plain;
  const ir::Op op = ir::find_op(op_name);
  if (op == ir::Op::kLeaf) return append_leaf(meta);
  if (op == ir::Op::kParameter) return append_number(std::get<0>(meta));
  const ir::OpInfo& row = ir::info(op);
  check_recordable(op);
  std::vector<ir::ValueId> inputs;
  std::vector<ir::Meta> metas(operands.size());
  std::vector<const ir::Meta*> pointers;
  for (size_t i = 0; i < operands.size(); ++i) {
    const int64_t v = operands[i];
    SMOLDER_CHECK(v >= -1 && v < static_cast<int64_t>(graph.values.size()), ValueError, "%", v, " is no value");
    inputs.push_back(v < 0 ? ir::kNone : static_cast<ir::ValueId>(v));
    if (v >= 0) metas[i] = {graph.shape(v).values(), graph.dtype(v), graph.info(v).weak};
    pointers.push_back(v < 0 ? nullptr : &metas[i]);
  }
  const std::string wrong = ir::wrong_call(row, inputs, std::vector<ir::Dim>(words.begin(), words.end()));
  SMOLDER_CHECK(wrong.empty(), ValueError, "`", row.name, "` ", wrong);
  check_numbers(row, graph, inputs);
  std::vector<ir::Meta> results(row.num_outputs);
  row.infer({pointers, words}, results.data());
  const auto size = [&](int64_t n) { return symbol(n); };
  std::vector<ir::Dim> attrs = lazy::extract_attrs(op, words, size, size);
  std::vector<ir::ValueInfo> infos;
  for (const ir::Meta& m : results) infos.push_back({ir::kNone, m.dtype, m.weak, ir::SymDims(m.shape)});
  graph.append(op, std::move(inputs), std::move(attrs), infos, {source, op});
}

void ReplayGraph::append_leaf(const PlainMeta& meta) {
  const auto& [dtype_name, shape] = meta;
  const auto dtype = parse_dtype(dtype_name);
  SMOLDER_CHECK(dtype, ValueError, "unknown dtype `", dtype_name, "`");
  SMOLDER_CHECK(shape.size() <= kMaxRank, ValueError, "tensors have at most ", kMaxRank, " dimensions");
  ir::SymDims dims;
  int64_t bytes = static_cast<int64_t>(itemsize(*dtype));
  bool fits = true;
  for (const int64_t n : shape) {
    fits = fits && n >= 0 && !__builtin_mul_overflow(bytes, std::max<int64_t>(n, 1), &bytes) && bytes < 1ll << 60;
    if (fits) dims.push_back(symbol(n));
  }
  SMOLDER_CHECK(fits, ValueError, "no tensor has shape ", Dims((std::span<const int64_t>(shape))));
  ir::Builder b(graph);
  leaves.push_back(b.leaf(static_cast<int>(leaves.size()), *dtype, dims).id);
}

void ReplayGraph::append_number(const std::string& category) {
  const std::unordered_map<std::string, Category> known = {
      {"bool", Category::kBool}, {"int", Category::kInt}, {"float", Category::kFloat}};
  const auto found = known.find(category);
  SMOLDER_CHECK(found != known.end(), ValueError, "unknown category `", category, "`");
  ir::Builder b(graph);
  b.parameter(static_cast<int>(numbers.size()), found->second);
  numbers.push_back(found->second);
}

nb::list dims_list(const Dims& shape) {
  nb::list out;
  for (const int64_t n : shape) out.append(n);
  return out;
}

nb::list nodes_list(const ir::Graph& g) {
  nb::list out;
  for (const ir::Node& n : g.nodes) {
    nb::list inputs, results;
    for (const ir::ValueId v : n.inputs) inputs.append(v == ir::kNone ? -1 : static_cast<int64_t>(v));
    for (ir::ValueId v = n.first_output; v < n.first_output + n.num_outputs; ++v) {
      results.append(nb::make_tuple(std::string(name(g.dtype(v))), dims_list(g.shape(v).values()), g.info(v).weak));
    }
    std::vector<int64_t> words;
    for (const ir::Dim& d : n.attrs) words.push_back(d.value);
    const std::string attrs = n.op == ir::Op::kLeaf ? "" : attrs_text(ir::info(n.op), words);
    out.append(nb::make_tuple(std::string(ir::name(n.op)), inputs, words, results, n.origin.source, attrs));
  }
  return out;
}

nb::tuple parse_graph(const std::string& text) {
  const ir::Graph g = graph::parse_nested(text);
  for (const ir::Node& n : g.nodes) {
    if (n.op == ir::Op::kLeaf || n.op == ir::Op::kParameter) {
      check_source(g, n);
      continue;
    }
    check_recordable(n.op);
    check_numbers(ir::info(n.op), g, n.inputs);
  }
  for (const ir::ValueInfo& v : g.values) {
    int64_t bytes = static_cast<int64_t>(itemsize(v.dtype));
    for (const ir::Dim& d : v.shape) {
      SMOLDER_CHECK(
          d.value >= 0 && !__builtin_mul_overflow(bytes, std::max<int64_t>(d.value, 1), &bytes) && bytes < 1ll << 60,
          ValueError, "graph text: no tensor has shape ", v.shape.values());
    }
  }
  check_graph(g);
  nb::list outputs;
  for (const ir::ValueId v : g.outputs) outputs.append(v);
  return nb::make_tuple(nodes_list(g), outputs);
}

nb::object first_difference(const ReplayGraph& now, const std::vector<uint8_t>& modes_now, const ReplayGraph& before,
                            const std::vector<uint8_t>& modes_before) {
  lazy::PlanEntry held;
  std::vector<uint32_t> produced;
  const lazy::Trace t = trace_of(now.graph, modes_now, produced);
  lazy::Trace other = trace_of(before.graph, modes_before, held.produced);
  other.plans.push_back(std::move(held));
  const std::optional<lazy::Recompile> difference = lazy::compare(t, produced, other);
  if (!difference) return nb::none();
  nb::dict out;
  out["cause"] = std::string(name(difference->cause));
  out["reason"] = difference->reason;
  out["where"] = difference->where;
  out["before"] = difference->before;
  return out;
}

}  // namespace smolder::python
