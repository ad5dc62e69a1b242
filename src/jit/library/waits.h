// Queued kernels of users (library.h) that only wait, or whose result lies where their operand does.
#pragma once

#include "smolder/ir/op.h"

namespace smolder::jit {

/// Says of an op that has a queued kernel: what the queue is given after it does not begin before something beside the
/// queue is done, which made the result where the first operand lies. Plans have it where the result is first needed,
/// and there. For the life of the process. Thread-safe.
void set_waits_on_device(ir::Op op);
bool waits_on_device(ir::Op op);
/// Says of such an op that its result may have the memory of its first operand, which is as large: also true of those
/// that wait.
void set_in_place_on_device(ir::Op op);
bool is_in_place_on_device(ir::Op op);

}  // namespace smolder::jit
