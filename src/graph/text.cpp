// The text form of a Graph: lines that name what the graph's leaves, results, sizes and sources are, then the graph as
// ir::print writes it.
//
//   smolder.graph 1
//   input "x"                                   leaf 0, and so on
//   weight "fc.weight"                          leaves after the inputs
//   output "y"                                  of what `return` lists, in order
//   size "batch"                                s0, and so on
//   source "model.py:12 in forward"             @1, and so on
//   symbols s0=32
//   %0 = leaf(number=0, ...) : float32[s0, 64]
//   ...
#include <nlohmann/json.hpp>
#include <string>

#include "smolder/graph/state.h"

namespace smolder::graph {
namespace {

using nlohmann::json;

constexpr std::string_view kFirstLine = "smolder.graph 1";
constexpr std::string_view kKeywords[] = {"input", "weight", "output", "size", "source"};

std::string quoted(const std::string& text) { return json(text).dump(-1, ' ', true, json::error_handler_t::replace); }

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
  return out + ir::print(s.ir);
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
  s.ir = ir::parse(blank + std::string(text.substr(at)));
  return s;
}

}  // namespace smolder::graph
