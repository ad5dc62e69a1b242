// The pass that has the threads of a group wait for each other where memory makes them.
#pragma once

#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit::cuda {

/// Puts `barrier` into a kernel whose loops are mapped to threads, before each statement that touches what another
/// thread may have touched since the last one, if either writes it. Whether it is shared or the device's memory, what
/// counts is which thread has which element: the same element in loops of one extent and one address is one thread's.
void insert_barriers(Kernel& k);

}  // namespace smolder::jit::cuda
