// The pass for loads that go across the loop over elements, along the positions, as in a transpose: a group makes them
// along the positions, into a tile in shared memory, and its threads find their own elements there.
#pragma once

#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit::cuda {

/// Puts a `block` around the thread loop of a kernel whose threads take chunks, with a `copy` of what such loads are
/// of: of as many of them as nothing comes before, and shared memory has room for.
void transpose_tiles(Kernel& k);

}  // namespace smolder::jit::cuda
