// Groups become steps: kernels with their arguments, and library calls, over buffers.
#pragma once

#include "smolder/jit/program.h"

namespace smolder::jit {

/// Gives every leaf, written value and output its buffer, then makes `steps` from `groups`.
void lower(Program& program);

}  // namespace smolder::jit
