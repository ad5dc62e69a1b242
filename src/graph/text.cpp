// The text form of a Graph: lines that name what the graph's leaves, results, sizes and sources are, then the graph as
// ir::print writes it.
//
//   smolder.graph 1
//   input "x"                                   leaf 0, and so on
//   weight "fc.weight"                          leaves after the inputs
//   output "y"                                  of what `return` lists, in order
//   size "batch"                                s0, and so on
//   source "model.py:12 in forward"             @1, and so on
//   subgraph 0                                  what control flow runs, before who runs it; names it by this number
//   ...
//   symbols s0=32

//   %0 = leaf(number=0, ...) : float32[s0, 64]
//   ...
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "smolder/graph/state.h"
#include "smolder/ir/control_flow.h"

namespace smolder::graph {
namespace {

using nlohmann::json;

constexpr size_t kMostSubgraphs = 1024;  ///< they are registered for ever
constexpr std::string_view kFirstLine = "smolder.graph 1";
constexpr std::string_view kKeywords[] = {"input", "weight", "output", "size", "source"};

std::string quoted(const std::string& text) { return json(text).dump(-1, ' ', true, json::error_handler_t::replace); }

constexpr std::string_view kSubgraph = "subgraph ";

/// Which attribute words of a node number graphs.
std::span<const size_t> graph_words(const ir::Node& n) {
  return ir::is_control_flow(n.op) ? ir::graph_words(n.op) : std::span<const size_t>();
}

/// The graphs that control flow runs, as sections, each behind those that it runs itself.
class Sections {
 public:
  std::string text;

  /// A graph that names others by their places among sections, which are added.
  ir::Graph local(ir::Graph g) {
    for (ir::Node& n : g.nodes) {
      for (const size_t w : graph_words(n)) n.attrs[w] = Dim(place_of(n.attrs[w].value));
    }
    return g;
  }

 private:
  using Dim = ir::Dim;
  int64_t place_of(int64_t number) {
    if (const auto known = places_.find(number); known != places_.end()) return known->second;
    ir::Graph g = local(ir::subgraph(number).graph);
    for (ir::Node& n : g.nodes) n.origin.source = 0;  // a token of this process
    const auto place = static_cast<int64_t>(places_.size());
    text += std::string(kSubgraph) + std::to_string(place) + "\n" + ir::print(g);
    places_.emplace(number, place);
    return place;
  }
  std::map<int64_t, int64_t> places_;
};

/// Registers a graph that was read, which takes its leaves and numbers in order.
int64_t register_subgraph(ir::Graph g) {
  check_subgraph(g);
  for (ir::Node& n : g.nodes) {
    if (n.op != ir::Op::kLeaf) continue;  // operands are row-major, whatever the text says
    const ir::SymDims strides = g.sym.contiguous_strides(g.shape(n.first_output));
    n.attrs = {n.attrs[0], ir::Dim(0), ir::Dim(strides.size())};
    n.attrs.insert(n.attrs.end(), strides.begin(), strides.end());
  }
  const std::string key = ir::print(g);
  return ir::intern_subgraph("text:" + key, [&] {
    ir::Subgraph s;
    s.structure = "text:" + key;
    s.symbols = trials(g.sym)[0];
    for (const ir::Node& n : g.nodes) {
      const ir::ValueInfo& v = g.values[n.num_outputs ? n.first_output : 0];
      if (n.op == ir::Op::kLeaf) s.leaves.push_back({v.shape.values(), v.dtype, false});
      if (n.op != ir::Op::kParameter) continue;
      s.parameters.push_back(static_cast<uint32_t>(n.attrs[0].value));
      s.categories.push_back(static_cast<Category>(n.attrs[1].value));
    }
    for (const ir::ValueId v : g.outputs) s.results.push_back({g.shape(v).values(), g.dtype(v), false});
    s.graph = std::move(g);
    return s;
  });
}

/// Gives a node that names graphs by their places the numbers that these have now.
void resolve(ir::Graph& g, const std::vector<int64_t>& numbers) {
  for (ir::Node& n : g.nodes) {
    for (const size_t w : graph_words(n)) {
      SMOLDER_CHECK(w < n.attrs.size() && n.attrs[w].is_constant() && n.attrs[w].value >= 0 &&
                        static_cast<size_t>(n.attrs[w].value) < numbers.size(),
                    ValueError, "graph text: ", ir::name(n.op), " runs a subgraph that is not before it");
      n.attrs[w] = ir::Dim(numbers[static_cast<size_t>(n.attrs[w].value)]);
    }
  }
}

}  // namespace

std::string text_of(const State& s) {
  std::string out(kFirstLine);
  out += "\n";
  const auto put = [&](const char* keyword, const std::string& name) {
    out += keyword + std::string(" ") + quoted(name) + "\n";
  };
  for (const std::string& name : s.inputs) put("input", name);
  for (const Weight& w : s.weights) put("weight", w.name);
  for (const std::string& name : s.outputs) put("output", name);
  for (const std::string& name : s.symbols) put("size", name);
  for (const std::string& text : s.sources) put("source", text);
  return out + print_nested(s.ir);
}

std::string print_nested(const ir::Graph& g) {
  Sections sections;
  const ir::Graph local = sections.local(g);
  return sections.text + ir::print(local);
}

ir::Graph parse_nested(std::string_view text, std::string blank) {
  std::vector<int64_t> subgraphs;
  size_t at = 0;
  while (text.substr(at).starts_with(kSubgraph)) {
    SMOLDER_CHECK(subgraphs.size() < kMostSubgraphs, ValueError, "graph text: more than ", kMostSubgraphs,
                  " subgraphs");
    const size_t begin = std::min(text.find('\n', at), text.size());
    const size_t last = text.find("\nreturn", begin);
    SMOLDER_CHECK(last != text.npos, ValueError, "graph text: subgraph ", subgraphs.size(),
                  " does not end in `return`");
    const size_t end = std::min(text.find('\n', last + 1), text.size() - 1) + 1;
    blank += "\n";
    ir::Graph g = ir::parse(blank + std::string(text.substr(begin + 1, end - begin - 1)));
    resolve(g, subgraphs);
    subgraphs.push_back(register_subgraph(std::move(g)));
    blank.append(static_cast<size_t>(std::count(text.begin() + begin + 1, text.begin() + end, '\n')), '\n');
    at = end;
  }
  ir::Graph g = ir::parse(blank + std::string(text.substr(at)));
  resolve(g, subgraphs);
  return g;
}

State parse_state(std::string_view text) {
  State s;
  size_t at = 0, line = 0;
  std::string blank;  // a line for each of ours, so that those of errors are right
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view rest = text.substr(at, end - at);
    if (rest.ends_with('\r')) rest.remove_suffix(1);
    ++line;
    if (line == 1) {
      SMOLDER_CHECK(rest.starts_with("smolder.graph "), ValueError, "graph text, line 1: expected `", kFirstLine, "`");
      SMOLDER_CHECK(rest == kFirstLine, ValueError, "graph text, line 1: this is version `", rest.substr(14, 20),
                    "` of the form, and only version 1 is known: it was written by a later Smolder");
    } else {
      const std::string_view word = rest.substr(0, rest.find(' '));
      const auto* const keyword = std::ranges::find(kKeywords, word);
      if (keyword == std::end(kKeywords) || rest.size() <= word.size()) break;
      const json value = json::parse(rest.substr(word.size()), nullptr, false);
      SMOLDER_CHECK(value.is_string(), ValueError, "graph text, line ", line, ": expected `", word, " \"name\"`");
      const std::string name = value.get<std::string>();
      if (word == "input") s.inputs.push_back(name);
      if (word == "weight") s.weights.push_back({name, {}});
      if (word == "output") s.outputs.push_back(name);
      if (word == "size") s.symbols.push_back(name);
      if (word == "source") s.sources.push_back(name);
    }
    blank += "\n";
    at = std::min(end + 1, text.size());
  }
  SMOLDER_CHECK(line > 0, ValueError, "graph text, line 1: expected `", kFirstLine, "`");
  s.ir = parse_nested(text.substr(at), std::move(blank));
  return s;
}

}  // namespace smolder::graph
