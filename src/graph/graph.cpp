#include "smolder/graph/graph.h"

#include <algorithm>

#include "smolder/graph/run.h"
#include "smolder/graph/state.h"
#include "smolder/ir/attr_words.h"
#include "smolder/ir/infer.h"

namespace smolder {

using graph::State;
using graph::Weight;
using ir::kNone;
using ir::Op;
using ir::ValueId;

namespace graph {

Graph make_graph(State state) {
  check(state);
  state.runner = std::make_shared<Runner>();
  return Graph(std::make_shared<const State>(std::move(state)));
}

}  // namespace graph

namespace {

GraphValue value_of(const State& s, ValueId v) {
  const ir::ValueInfo& info = s.ir.values[v];
  GraphValue out{"%" + std::to_string(v), info.dtype, info.weak, {}};
  for (const ir::Dim& d : info.shape) out.shape.push_back(s.size_text(d));
  return out;
}

std::vector<GraphValue> values_of(const State& s, std::span<const ValueId> values) {
  std::vector<GraphValue> out;
  for (const ValueId v : values) out.push_back(value_of(s, v));
  return out;
}

/// Attributes as printed, sizes by their names.
std::vector<std::pair<std::string, std::string>> attributes_of(const State& s, const ir::Node& n) {
  std::vector<std::pair<std::string, std::string>> out;
  std::vector<int64_t> words;
  for (const ir::Dim& d : n.attrs) words.push_back(d.value);
  ir::for_each_attr(ir::info(n.op), words, [&](const ir::AttrInfo& a, size_t first, size_t count) {
    const auto symbolic = [&](size_t i) { return !n.attrs[first + i].is_constant(); };
    const bool list = a.kind == ir::AttrKind::kIntList || a.kind == ir::AttrKind::kSizeList ||
                      a.kind == ir::AttrKind::kOptionalIntList;
    bool any = false;
    for (size_t i = 0; i < count; ++i) any |= symbolic(i);
    if (!any) {
      out.emplace_back(a.name, ir::attr_text(a, std::span(words).subspan(first, count)));
      return;
    }
    std::string text;
    const size_t skipped = a.kind == ir::AttrKind::kOptionalIntList ? 2 : list || count == 2 ? 1 : 0;
    for (size_t i = skipped; i < count; ++i) text += (i > skipped ? ", " : "") + s.size_text(n.attrs[first + i]);
    out.emplace_back(a.name, list ? "[" + text + "]" : text);
  });
  return out;
}

}  // namespace

Graph::Graph() : Graph(graph::make_graph({})) {}

const std::vector<std::string>& Graph::input_names() const { return state_->inputs; }
const std::vector<std::string>& Graph::output_names() const { return state_->outputs; }

nn::Named<Tensor> Graph::weights() const {
  nn::Named<Tensor> out;
  for (const Weight& w : state_->weights) out.emplace_back(w.name, w.tensor);
  return out;
}

std::vector<std::string> Graph::dynamic_sizes() const { return state_->symbols; }

std::vector<GraphValue> Graph::inputs() const {
  const std::vector<ValueId> leaves = state_->leaves();
  return values_of(*state_, std::span(leaves).first(state_->inputs.size()));
}
std::vector<GraphValue> Graph::outputs() const { return values_of(*state_, state_->ir.outputs); }

std::vector<GraphNode> Graph::nodes() const {
  std::vector<GraphNode> out;
  for (const ir::Node& n : state_->ir.nodes) {
    if (n.op == Op::kLeaf || n.op == Op::kConstant || n.op == Op::kParameter || n.op == Op::kExtent) continue;
    GraphNode node{std::string(ir::name(n.op)), {}, {}, attributes_of(*state_, n), ""};
    for (const ValueId v : n.inputs) node.inputs.push_back(v == kNone ? "_" : "%" + std::to_string(v));
    for (ValueId v = n.first_output; v < n.first_output + n.num_outputs; ++v) {
      node.outputs.push_back(value_of(*state_, v));
    }
    if (const uint32_t source = n.origin.source; source > 0 && source <= state_->sources.size()) {
      node.source = state_->sources[source - 1];
    }
    out.push_back(std::move(node));
  }
  return out;
}

std::string Graph::to_string() const { return graph::text_of(*state_); }
Graph Graph::parse(std::string_view text) { return graph::make_graph(graph::parse_state(text)); }
void Graph::verify() const { graph::check(*state_); }

const std::string& Graph::structure() const { return state_->structure; }
void Graph::set_structure(std::string text) {
  auto fresh = std::make_shared<State>(*state_);
  fresh->structure = std::move(text);
  state_ = std::move(fresh);
}

void Graph::rename(std::vector<std::string> inputs, std::vector<std::string> outputs) {
  SMOLDER_CHECK(inputs.size() == state_->inputs.size() && outputs.size() == state_->outputs.size(), ValueError,
                "the graph has ", state_->inputs.size(), " inputs and ", state_->outputs.size(), " outputs, got ",
                inputs.size(), " and ", outputs.size(), " names");
  State s = *state_;
  s.inputs = std::move(inputs);
  s.outputs = std::move(outputs);
  *this = graph::make_graph(std::move(s));
}

std::vector<Tensor> Graph::run(const std::vector<Tensor>& inputs) const {
  SMOLDER_CHECK(inputs.size() == state_->inputs.size(), TypeError, "this graph takes ", state_->inputs.size(),
                " tensors, got ", inputs.size());
  return state_->runner->run(*state_, inputs);
}

Graph Graph::to(Device device) const {
  State s = *state_;
  for (Weight& w : s.weights) {
    if (w.tensor.defined()) w.tensor = w.tensor.detach().to(device);
  }
  return graph::make_graph(std::move(s));
}

Graph Graph::bind(const nn::Named<Tensor>& weights, bool strict) const {
  State s = *state_;
  std::string unknown, missing, other;
  const auto add = [](std::string& list, const std::string& what) { list += (list.empty() ? "" : ", ") + what; };
  const std::vector<ValueId> leaves = s.leaves();
  std::vector<bool> given(s.weights.size());
  for (const auto& [name, t] : weights) {
    const auto at = std::ranges::find(s.weights, name, &Weight::name);
    if (at == s.weights.end()) {
      if (strict) add(unknown, "'" + name + "'");
      continue;
    }
    const auto number = static_cast<size_t>(at - s.weights.begin());
    const ir::ValueInfo& info = s.ir.info(leaves[s.inputs.size() + number]);
    const ir::Meta declared{info.shape.values(), info.dtype, false};
    if (t.meta() != declared) {
      add(other, "'" + name + "' is " + ir::to_string(t.meta()) + " where the graph has " + ir::to_string(declared));
    }
    at->tensor = t;
    given[number] = true;
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i] && !s.weights[i].tensor.defined() && strict) add(missing, "'" + s.weights[i].name + "'");
  }
  SMOLDER_CHECK(unknown.empty() && missing.empty() && other.empty(), RuntimeError,
                "weights do not fit the graph:", missing.empty() ? "" : " missing: " + missing + ";",
                unknown.empty() ? "" : " unknown: " + unknown + ";",
                other.empty() ? "" : " of another kind: " + other + ";");
  return graph::make_graph(std::move(s));
}

}  // namespace smolder
