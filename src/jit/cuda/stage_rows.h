// The pass that has rows which do not fit in registers wait in shared memory.
#pragma once

#include "smolder/jit/cuda/accesses.h"
#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit::cuda {

/// Puts `stage` and `unstage` into a kernel whose rows are held (hold_rows.h): for long rows that several loops read,
/// where the kernel is made for such (`RowSize::staged`), and for rows that all iterations of a split loop read. A
/// launch says whether there is room for them.
void stage_rows(Kernel& k);

/// Whether a row that is held is worth a place in shared memory where it is long: it is the position's, and several
/// loops read it.
bool is_worth_staging(const Kernel& k, const Accesses& accesses, int buffer);

}  // namespace smolder::jit::cuda
