// Which build of a library this is.
#pragma once

#include <string>

namespace smolder {

/// The linker's build id of the library or program that holds `address`, in hexadecimal: it changes whenever anything
/// in there does, so that code cached by another build is not taken for its own. Throws RuntimeError when it has none.
std::string build_id(const void* address);

}  // namespace smolder
