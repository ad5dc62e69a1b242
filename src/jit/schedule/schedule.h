#pragma once

#include "smolder/jit/program.h"

namespace smolder::jit {

/// Orders the steps so that little memory is needed at once, and puts independent calls of one kernel into one
/// launch. Fills `Program::launch_of`.
void schedule(Program& program);
/// Leaves the steps in the order of the program, one launch each.
void schedule_in_order(Program& program);

}  // namespace smolder::jit
