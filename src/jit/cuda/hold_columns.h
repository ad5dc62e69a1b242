// The pass that keeps elements in registers around loops that update them.
#pragma once

#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit::cuda {

/// Puts `hold` and `release` around the sequential loops of a kernel whose threads take chunks: for elements that all
/// iterations read and write in one place, as a sum over rows does. Where a loop writes nothing else, several
/// iterations' loads are on their way at once (`unroll`).
void hold_columns(Kernel& k);

}  // namespace smolder::jit::cuda
