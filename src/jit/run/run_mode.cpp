#include "smolder/jit/run/run_mode.h"

#include <cstdlib>
#include <string>

#include "smolder/core/counters.h"

namespace smolder::jit {
namespace {

thread_local const RunMode* t_mode = nullptr;

/// SMOLDER_AUTOTUNE; empty where it says nothing.
const std::string& asked() {
  static const std::string word = [] {
    const char* const text = std::getenv("SMOLDER_AUTOTUNE");
    std::string found = text ? text : "";
    if (found.empty() || found == "0" || found == "1" || found == "at_once") return found;
    debug(0, "tuning", "SMOLDER_AUTOTUNE is 0, 1 or at_once, found '" + found + "': it says nothing");
    return std::string();
  }();
  return word;
}

const RunMode& mode_of_process() {
  static const RunMode mode{.tunes = asked() == "1" || asked() == "at_once", .at_once = asked() == "at_once"};
  return mode;
}

}  // namespace

bool may_tune() { return asked() != "0"; }

RunMode run_mode() { return t_mode ? *t_mode : mode_of_process(); }

RunModeScope::RunModeScope(const RunMode& mode) : mode_(mode), outer_(t_mode) { t_mode = &mode_; }
RunModeScope::~RunModeScope() { t_mode = outer_; }

}  // namespace smolder::jit
