// Groups become steps: kernels with their arguments, and library calls, over buffers.
#pragma once

#include "smolder/jit/program.h"
#include "smolder/jit/view.h"

namespace smolder::jit {

/// Gives every leaf, written value and output its buffer, then makes `steps` from `groups`.
void lower(Program& program);

/// `v` as a walk through the buffer it is moved from; empty when strides can't say it.
std::optional<StridedView> view_in_memory(Program& program, ir::ValueId v);

/// The value whose memory `v` is: itself, or what it reshapes.
ir::ValueId storage_root(const Program& program, ir::ValueId v);

}  // namespace smolder::jit
