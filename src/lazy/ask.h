// Modes of a thread, and classes of tensors (wrapper.h), that see ops as they are recorded: what they answer becomes
// the results.
#pragma once

#include <span>

#include "smolder/ir/op.h"
#include "smolder/lazy/lock.h"
#include "smolder/lazy/operand.h"
#include "smolder/lazy/tensor.h"

namespace smolder::lazy {

/// Whether `record` asks the hook about every op in the calling thread.
extern SMOLDER_THREAD_LOCAL bool t_asking;

/// Called by `record` instead of recording, with gradients off: sets the outputs. History is recorded of the op all the
/// same.
using AskHook = void (*)(ir::Op op, std::span<const Operand> operands, std::span<const int64_t> attrs, Tensor* outputs);
void set_ask_hook(AskHook hook);

}  // namespace smolder::lazy
