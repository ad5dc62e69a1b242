#include "smolder/jit/switches.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace smolder::jit {

namespace {
thread_local const std::string* t_disabled = nullptr;
}  // namespace

std::string disabled_names() {
  if (t_disabled) return *t_disabled;
  const char* const text = std::getenv("SMOLDER_DISABLE");
  return text ? text : "";
}

DisabledScope::DisabledScope(const std::string& names) : outer_(std::exchange(t_disabled, &names)) {}
DisabledScope::~DisabledScope() { t_disabled = outer_; }

bool is_disabled(std::string_view name) {
  const std::string names = disabled_names();
  std::string_view rest = names;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    if (rest.substr(0, comma) == name) return true;
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return false;
}

std::vector<std::string_view> switch_names() {
  return {"simplify",  "fuse",      "schedule",   "recompute", "rules", "merge", "fold",       "moves",
          "join_bias", "join_pads", "align_rows", "together",  "guard", "tiles", "short_rows", "cut_sums"};
}

}  // namespace smolder::jit
