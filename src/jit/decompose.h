#pragma once

#include "smolder/jit/program.h"

namespace smolder::jit {

/// Rewrites the graph's ops into primitives, by the rows of the op table.
void decompose(Program& program);

}  // namespace smolder::jit
