// A kernel as compact bytes: what kernels are compared by while compiling, many times faster than as text.
#pragma once

#include <string>
#include <string_view>

#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit {

/// Bytes of everything but the name: equal exactly when the kernels are.
std::string to_bytes(const Kernel& k);
/// Inverse of `to_bytes`. Throws ValueError when the bytes are no kernel.
Kernel from_bytes(std::string_view bytes);

}  // namespace smolder::jit
