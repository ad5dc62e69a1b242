// The pass that says which loads are on their way before they are needed.
#pragma once

#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit::cuda {

/// Marks loads as `ahead` whose places are known early, and which nothing writes meanwhile:
///  - in a split loop, loads of the iterations to come, and rows of the next one. Where threads take chunks, some
///    iterations' loads are on their way at once (`unroll`);
///  - else in a kernel whose threads take chunks, loads of the thread's elements, before all that it computes. The
///    loop becomes `coarsened` where what is computed once takes long beside one chunk, and then they are the next's.
void load_ahead(Kernel& k);

}  // namespace smolder::jit::cuda
