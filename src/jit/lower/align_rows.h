// Rows of products' operands and results that begin where the device loads them fastest.
#pragma once

#include "smolder/jit/program.h"

namespace smolder::jit {

/// Tensor cores are fed 16 bytes at a time, by kernels that are several times as fast as others, where all rows of a
/// matrix begin at a multiple of that. Lays out matrices of halves, whose rows have another length, with room behind
/// each row: those that are a plan's own and that only products and generated kernels know. After buffers are made, and
/// before anything is lowered that reads them.
void align_rows(Program& program);

/// A step's result lies densely for its user. Where such a matrix is one that large products write or read, has the
/// user's be a copy, so that the plan's own has room. Before fusion.
void copy_odd_outputs(Program& program);

}  // namespace smolder::jit
