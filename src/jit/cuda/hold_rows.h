// The pass that keeps rows in registers between the loops that use them.
#pragma once

#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit::cuda {

/// Puts `register`, `hold` and `release` into a kernel whose threads share out rows, each the same elements of all
/// loops: for rows that loops write and read again, then those that several read, then those that one reads, as long as
/// a thread has registers. A split loop gets its `threads`, and registers for what its segments add up.
///
/// The generator writes code for rows that fit, where elements stay in registers, and for longer ones, where they go
/// through memory (docs/architecture/cuda_kernels.md).
void hold_rows(Kernel& k);

}  // namespace smolder::jit::cuda
