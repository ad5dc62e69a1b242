// What of the compiler can be switched off, for finding out what a wrong result comes of.
#pragma once

#include <string_view>
#include <vector>

namespace smolder::jit {

/// What SMOLDER_DISABLE may name: stages that the compiler can do without, and parts of them. All change no bit of any
/// result. Also `rule.NAME` for a rule of rules.def.
std::vector<std::string_view> switch_names();
/// Is it named there? Read each time: tests and tools change it.
bool is_disabled(std::string_view name);

}  // namespace smolder::jit
