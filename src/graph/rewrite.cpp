// Edits of graphs. Each makes a list of nodes over the old values and new ones, which is then numbered, inferred and
// checked as a whole.
#include <algorithm>
#include <charconv>

#include "smolder/graph/graph.h"
#include "smolder/graph/state.h"
#include "smolder/ir/rewrite.h"

namespace smolder {

using graph::node_name;
using graph::State;
using ir::kNone;
using ir::Node;
using ir::Op;
using ir::ValueId;

namespace {

/// A graph being edited. New values are numbered after the old ones until it is rebuilt.
class Edit {
 public:
  explicit Edit(const State& s) : s_(s), edited_(s.ir) {}

  ValueId find(const std::string& name) const {
    ValueId v = kNone;
    const char *const begin = name.data(), *const end = begin + name.size();
    const bool read = name.starts_with('%') && std::from_chars(begin + 1, end, v).ptr == end;
    SMOLDER_CHECK(read && v < infos_.size(), ValueError, "the graph has no value '", name, "'");
    return v;
  }
  /// The place of the node that makes `v`.
  size_t place(ValueId v) const {
    const auto at = std::ranges::find_if(
        nodes_, [&](const Node& n) { return v >= n.first_output && v < n.first_output + n.num_outputs; });
    return static_cast<size_t>(at - nodes_.begin());
  }
  const Node& node(size_t at) const { return nodes_[at]; }
  size_t size() const { return nodes_.size(); }

  /// Puts a node there, behind the numbers that it takes; its place.
  size_t insert(size_t at, std::string_view name, const std::vector<NodeArgument>& arguments);
  void replace(ValueId old, ValueId fresh);
  void erase(size_t at);
  /// The new graph, and what the results of the node at `at` are called in it.
  Graph finish(size_t at, std::vector<std::string>* results);

 private:
  ValueId add(size_t at, Op op, std::vector<ValueId> inputs, std::vector<int64_t> words,
              const std::vector<ir::ValueInfo>& infos) {
    const auto first = static_cast<ValueId>(infos_.size());
    nodes_.insert(
        nodes_.begin() + static_cast<ptrdiff_t>(at),
        Node{op, static_cast<uint16_t>(infos.size()), first, std::move(inputs), {words.begin(), words.end()}, {}});
    infos_.insert(infos_.end(), infos.begin(), infos.end());
    return first;
  }
  ValueId number(size_t& at, Scalar v) {
    return add(at++, Op::kConstant, {}, {static_cast<int64_t>(v.category()), static_cast<int64_t>(v.bits())},
               {{kNone, v.dtype(DType::kFloat64), true, {}}});
  }

  const State& s_;
  ir::Graph edited_;  ///< its values do not tell their nodes
  std::vector<Node>& nodes_ = edited_.nodes;
  std::vector<ir::ValueInfo>& infos_ = edited_.values;
  std::vector<ValueId>& outputs_ = edited_.outputs;
};

/// A number that stands where an argument is left out; none where nothing does.
std::optional<Scalar> default_number(const ir::SchemaArgument& a) {
  const ir::AttrValue v = ir::default_value(a);
  if (const auto* const b = std::get_if<bool>(&v)) return Scalar(*b);
  if (const auto* const n = std::get_if<int64_t>(&v)) return Scalar(*n);
  if (const auto* const d = std::get_if<double>(&v)) return Scalar(*d);
  return {};
}

size_t Edit::insert(size_t at, std::string_view name, const std::vector<NodeArgument>& arguments) {
  const Op op = ir::find_op(name);
  const ir::Schema schema = ir::schema_of(op);
  SMOLDER_CHECK(arguments.size() <= schema.arguments.size(), TypeError, name, " takes ", schema.arguments.size(),
                " arguments, got ", arguments.size());
  std::vector<ValueId> inputs;
  std::vector<int64_t> words;
  for (size_t i = 0; i < schema.arguments.size(); ++i) {
    const ir::SchemaArgument& a = schema.arguments[i];
    const NodeArgument* const given = i < arguments.size() && !arguments[i].left_out() ? &arguments[i] : nullptr;
    if (!a.is_operand()) {
      SMOLDER_CHECK(!given || given->other(), TypeError, name, "(): argument '", a.name,
                    "' is no value of the graph: it is fixed when the node is made");
      ir::append_words(a, given ? given->other()->attribute : ir::default_value(a), words);
    } else if (given && !given->other()) {
      SMOLDER_CHECK(given->is_list() == (a.kind == ir::SchemaArgument::kTensorList), TypeError, name, "(): argument '",
                    a.name, "' is none that ", ir::info(op).signature, " takes");
      for (const std::string& v : given->values()) inputs.push_back(find(v));
    } else {
      std::optional<Scalar> n = given ? std::nullopt : default_number(a);
      if (given) {
        if (const auto* const s = std::get_if<Scalar>(&given->other()->operand)) n = *s;
        SMOLDER_CHECK(n || std::holds_alternative<std::monostate>(given->other()->operand), TypeError, name,
                      "(): argument '", a.name, "' is a value of the graph, by its name, or a number");
      }
      if (n && a.type == "float") n = n->to_double();
      inputs.push_back(n ? number(at, *n) : kNone);
    }
  }
  add(at, op, std::move(inputs), std::move(words), std::vector<ir::ValueInfo>(ir::info(op).num_outputs));
  return at;
}

void Edit::replace(ValueId old, ValueId fresh) {
  const size_t from = place(fresh);
  std::vector<bool> needed(infos_.size());  // by fresh
  needed[fresh] = true;
  for (size_t i = from + 1; i-- > 0;) {
    const Node& n = nodes_[i];
    bool makes = false;
    for (ValueId v = n.first_output; v < n.first_output + n.num_outputs; ++v) makes |= needed[v];
    for (const ValueId v : n.inputs) {
      if (makes && v != kNone) needed[v] = true;
    }
    SMOLDER_CHECK(makes || std::ranges::find(n.inputs, old) == n.inputs.end(), ValueError, node_name(s_, n), " reads %",
                  old, " before there is %", fresh);
  }
  for (size_t i = from + 1; i < nodes_.size(); ++i) std::ranges::replace(nodes_[i].inputs, old, fresh);
  std::ranges::replace(outputs_, old, fresh);
}

void Edit::erase(size_t at) {
  const Node& n = nodes_[at];
  SMOLDER_CHECK(n.op != Op::kLeaf, ValueError, "an input or weight cannot be erased");
  const auto its = [&](ValueId v) { return v != kNone && v >= n.first_output && v < n.first_output + n.num_outputs; };
  for (const Node& reader : nodes_) {
    SMOLDER_CHECK(std::ranges::none_of(reader.inputs, its), ValueError, "cannot erase ", node_name(s_, n), ": ",
                  node_name(s_, reader), " reads it");
  }
  SMOLDER_CHECK(std::ranges::none_of(outputs_, its), ValueError, "cannot erase ", node_name(s_, n),
                ": the graph returns it");
  nodes_.erase(nodes_.begin() + static_cast<ptrdiff_t>(at));
}

Graph Edit::finish(size_t at, std::vector<std::string>* results) {
  std::vector<bool> read(infos_.size());
  for (const Node& n : nodes_) {
    for (const ValueId v : n.inputs) {
      if (v != kNone) read[v] = true;
    }
  }
  State out = s_;
  out.ir = ir::rewrite(edited_, [&](ir::Rewriter& r, const Node& n) {
    const bool number = n.op == Op::kConstant || n.op == Op::kParameter || n.op == Op::kExtent;
    if (number && !read[n.first_output]) return true;
    for (const ValueId v : n.inputs) {
      SMOLDER_CHECK(v == kNone || r.now(v) != kNone, ValueError, node_name(s_, n), " reads %", v,
                    ", which is not before it");
    }
    const ValueId first = r.copy(n);
    for (uint32_t k = 0; k < n.num_outputs; ++k) {
      if (results && r.index(n) == at) results->push_back("%" + std::to_string(first + k));
    }
    return true;
  });
  graph::infer_shapes(out);
  return graph::make_graph(std::move(out));
}

}  // namespace

std::vector<std::string> Graph::insert(const std::string& before, std::string_view op,
                                       const std::vector<NodeArgument>& arguments) {
  Edit edit(*state_);
  const size_t at = edit.insert(before.empty() ? edit.size() : edit.place(edit.find(before)), op, arguments);
  std::vector<std::string> out;
  *this = edit.finish(at, &out);
  return out;
}

void Graph::replace(const std::string& old, const std::string& fresh) {
  Edit edit(*state_);
  edit.replace(edit.find(old), edit.find(fresh));
  *this = edit.finish(0, nullptr);
}

void Graph::replace_node(const std::string& node, std::string_view op, const std::vector<NodeArgument>& arguments) {
  Edit edit(*state_);
  const Node old = edit.node(edit.place(edit.find(node)));
  SMOLDER_CHECK(old.op != Op::kLeaf, ValueError, node, " is an input or weight, no node to replace");
  const Node fresh = edit.node(edit.insert(edit.place(old.first_output), op, arguments));
  SMOLDER_CHECK(fresh.num_outputs >= old.num_outputs, ValueError, op, " has ", fresh.num_outputs, " results, ",
                node_name(*state_, old), " has ", old.num_outputs);
  for (uint32_t k = 0; k < old.num_outputs; ++k) edit.replace(old.first_output + k, fresh.first_output + k);
  edit.erase(edit.place(old.first_output));
  *this = edit.finish(0, nullptr);
}

void Graph::erase(const std::string& node) {
  Edit edit(*state_);
  edit.erase(edit.place(edit.find(node)));
  *this = edit.finish(0, nullptr);
}

int Graph::eliminate_dead() {
  State s = *state_;
  const int dropped = graph::drop_dead(s);
  *this = graph::make_graph(std::move(s));
  return dropped;
}

}  // namespace smolder
