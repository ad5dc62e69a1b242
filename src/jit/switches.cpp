#include "smolder/jit/switches.h"

#include <algorithm>
#include <cstdlib>

namespace smolder::jit {

bool is_disabled(std::string_view name) {
  const char* text = std::getenv("SMOLDER_DISABLE");
  std::string_view rest = text ? text : "";
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    if (rest.substr(0, comma) == name) return true;
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return false;
}

std::vector<std::string_view> switch_names() {
  return {"simplify", "fuse",  "schedule",  "recompute", "rules",      "merge",
          "fold",     "moves", "join_bias", "join_pads", "align_rows", "together"};
}

}  // namespace smolder::jit
