// Products that add a bias, and take relu, where they write their sums.
#pragma once

#include "smolder/jit/program.h"

namespace smolder::jit {

/// Joins a product and the kernel that only adds a row to each of its rows (on the CPU), or takes relu, or both: one
/// call then writes what a thread has at hand, and no kernel fetches what another core wrote. Runs on steps in program
/// order.
void join_bias(Program& program);

}  // namespace smolder::jit
