#include "smolder/ir/op.h"

#include <optional>
#include <string>
#include <unordered_map>

#include "smolder/core/error.h"
#include "smolder/ir/control_flow.h"
#include "smolder/ir/user_op.h"

namespace smolder::ir {

Op find_op(std::string_view name) {
  static const auto* const kByName = [] {
    auto* map = new std::unordered_map<std::string_view, Op>;
    for (int i = 0; i < kNumOps; ++i) map->emplace(op_table()[i].name, static_cast<Op>(i));
    return map;
  }();
  if (const auto it = kByName->find(name); it != kByName->end()) return it->second;
  std::optional<Op> registered = find_user_op(name);
  if (!registered) registered = find_control_op(name);
  SMOLDER_CHECK(registered, ValueError, "there is no op called '", name, "'");
  return *registered;
}

void raise_index_error(Op op, const std::string& text, const std::string& after) {
  const IndexErrorInfo& error = info(op).index_error;
  // What is no index to its user has an error of its own, which does not speak of one.
  std::string all = error.runtime_error && !error.text.empty() ? std::string(error.text) : text;
  if (!error.runtime_error && !error.text.empty()) all += ": " + std::string(error.text);
  if (error.runtime_error) throw RuntimeError(all + after);
  throw IndexError(all + after);
}

int64_t choice_index(Op op, int attr, std::string_view value) {
  const AttrInfo& a = info(op).attrs[attr];
  for (size_t i = 0; i < a.choices.size(); ++i) {
    if (a.choices[i] == value) return static_cast<int64_t>(i);
  }
  SMOLDER_CHECK(a.name != "reduction", ValueError, value, " is not a valid value for reduction");
  std::string known;
  for (std::string_view c : a.choices) known += (known.empty() ? "'" : ", '") + std::string(c) + "'";
  raise<RuntimeError>(name(op), ": ", a.name, " argument must be one of ", known, "; got '", value, "'");
}

}  // namespace smolder::ir
