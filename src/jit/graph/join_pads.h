// Sums of slices' gradients as what they are: pieces of one tensor side by side.
#pragma once

#include "smolder/jit/program.h"

namespace smolder::jit {

/// Makes a sum of many tensors that are padded with zeros to parts of one axis, no two to the same, a cat of what was
/// padded, as the gradients of a loop that takes a slice of its input in each of its iterations: a kernel would look at
/// every piece for each element. Exact: each element is a piece's, to which zeros are added. Returns whether there were
/// any.
bool join_pads(Program& program);

}  // namespace smolder::jit
