#include "smolder/jit/run_mode.h"

#include <cstdlib>
#include <string_view>

namespace smolder::jit {
namespace {

thread_local const RunMode* t_mode = nullptr;

const RunMode& mode_of_process() {
  static const RunMode mode = [] {
    const char* const text = std::getenv("SMOLDER_AUTOTUNE");
    const std::string_view asked = text ? text : "0";
    return RunMode{.tunes = asked == "1" || asked == "at_once", .at_once = asked == "at_once"};
  }();
  return mode;
}

}  // namespace

RunMode run_mode() { return t_mode ? *t_mode : mode_of_process(); }

RunModeScope::RunModeScope(const RunMode& mode) : mode_(mode), outer_(t_mode) { t_mode = &mode_; }
RunModeScope::~RunModeScope() { t_mode = outer_; }

}  // namespace smolder::jit
