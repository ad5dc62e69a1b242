// The gradient of a projection that gave queries, keys and values.
#pragma once

#include "smolder/jit/program.h"

namespace smolder::jit::cuda {

/// Lets attention's backward write it whole where its three results are parts of one, as `split` and `unbind` have
/// it: no kernel then puts them together. Guards what that says about sizes. Returns whether it did.
bool join_gradients(Program& program);

}  // namespace smolder::jit::cuda
