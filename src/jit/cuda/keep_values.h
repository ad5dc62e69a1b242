// The pass that keeps values which several loops compute.
#pragma once

#include <vector>

#include "smolder/jit/cuda/accesses.h"
#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit::cuda {

/// A value that a loop over elements computes as an earlier one did, and that is costly.
struct Repeat {
  LocalId first, again;
};
std::vector<Repeat> repeats_of(const Kernel& k, const Accesses& accesses);

/// Says of such values that they are computed again, where long rows wait in shared memory and threads have registers
/// for what was computed of them (`RowSize::staged`, `chunks`).
void keep_values(Kernel& k);

}  // namespace smolder::jit::cuda
