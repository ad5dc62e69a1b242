// Decides which primitives become one kernel.
#pragma once

#include "smolder/jit/program.h"

namespace smolder::jit {

/// Fills `groups` and `group_of`. Deterministic and near linear in the size of the graph.
void fuse(Program& program);
/// Where a kernel takes long to compile: has small random results that the program keeps, as data that a script makes
/// up for its first step, read from memory, so that kernels that read them are those of other steps.
void keep_random_results_apart(Program& program);
/// The same without fusion: one kernel a primitive.
void one_kernel_each(Program& program);

}  // namespace smolder::jit
