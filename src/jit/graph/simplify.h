#pragma once

#include "smolder/jit/program.h"

namespace smolder::jit {

/// Applies the rewrite rules (rules.def), merges equal nodes and drops what no output needs.
void simplify(Program& program);
/// The last of these alone.
void remove_dead_code(Program& program);

}  // namespace smolder::jit
