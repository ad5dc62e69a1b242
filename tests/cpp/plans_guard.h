// Steps run as plans: one that could not be compiled would run op by op, and give the same bits as if nothing were
// wrong. So a test fails when it had such a step, unless it says that it means to. Steps wait for the compiler, unless
// a test says otherwise.
#pragma once

namespace smolder::tests {

/// The running test means to have steps that run op by op.
void allow_op_by_op();

}  // namespace smolder::tests
