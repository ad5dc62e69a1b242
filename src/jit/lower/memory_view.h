// Where values lie in the buffers that lowering gave them.
#pragma once

#include <optional>

#include "smolder/jit/program.h"
#include "smolder/jit/view.h"

namespace smolder::jit {

/// `v` as a walk through the buffer it is moved from; empty when strides can't say it.
std::optional<StridedView> view_in_memory(Program& program, ir::ValueId v);

/// The value whose memory `v` is: itself, or what it reshapes.
ir::ValueId storage_root(const Program& program, ir::ValueId v);

}  // namespace smolder::jit
