#pragma once

#include "smolder/jit/program.h"

namespace smolder::jit {

/// Marks stores to outputs that leave the caches before anyone reads them: such a store writes whole lines past
/// the caches, and need not read them first.
void mark_streams(Program& program);
void mark_no_streams(Program& program);

}  // namespace smolder::jit
