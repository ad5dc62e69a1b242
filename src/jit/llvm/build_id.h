// Which build of the code generator this is.
#pragma once

#include <string>

namespace smolder::jit::cpu {

/// The linker's build id of this plugin, in hexadecimal: changes whenever anything that generates code does, so
/// that code cached by another build is not taken for its own. Throws RuntimeError when the plugin has none.
std::string build_id();

}  // namespace smolder::jit::cpu
