// Parts of the compiler that can be switched off, to find out where a wrong result comes from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace smolder::jit {

/// The names that SMOLDER_DISABLE takes: stages that the compiler can do without, and parts of them. All change no bit
/// of any result. Also `rule.NAME` for a rule of rules.def.
std::vector<std::string_view> switch_names();
/// Is it named there? Read each time: tests and tools change it.
bool is_disabled(std::string_view name);
/// The names in it, as text; a scope has others in their place on its thread. So a plan that is compiled later is as
/// the program wanted it when it asked, and other threads read no variable that the program may set.
std::string disabled_names();
class DisabledScope {
 public:
  explicit DisabledScope(const std::string& names);
  ~DisabledScope();
  DisabledScope(const DisabledScope&) = delete;

 private:
  const std::string* const outer_;
};

}  // namespace smolder::jit
