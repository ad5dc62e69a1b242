#include "smolder/ir/op.h"

#include <string>

#include "smolder/core/error.h"

namespace smolder::ir {

void raise_index_error(Op op, const std::string& text, const std::string& after) {
  const IndexErrorInfo& error = info(op).index_error;
  // An operand that is no index to its user has an error of its own, which does not speak of one.
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
