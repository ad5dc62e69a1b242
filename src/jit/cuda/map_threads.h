// The pass that maps a kernel's loops to threads: `parallel` becomes `grid`, and `vector` loops become `thread` loops,
// or `lanes` of one (loop_ir.h).
#pragma once

#include "smolder/jit/cuda/accesses.h"
#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit::cuda {

/// Maps a kernel that is not scheduled. Where no element that one thread would write is another's, and nothing is
/// reduced along vector loops, threads take chunks through the whole body; else a group shares out each loop, and what
/// is a row of one position only is shared memory.
void map_threads(Kernel& k);

/// Whether threads take chunks through the whole body; of a kernel that is scheduled, or is to be.
bool takes_chunks(const Kernel& k, const Accesses& accesses);
/// Whether a buffer is a row of each group, likewise.
bool is_shared_row(const Kernel& k, const Accesses& accesses, size_t buffer);

}  // namespace smolder::jit::cuda
