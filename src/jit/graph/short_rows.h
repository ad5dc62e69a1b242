// Sums of few neighbours, as of the coordinates of points, as what they are: some additions.
#pragma once

#include "smolder/ir/graph.h"
#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit {

/// Makes a reduction of rows of two to four elements, of which there are many, elementwise in as many slices: loops
/// then run over the rows, not over a row. On the CPU also one of a stack of up to 16 tensors: each is an operand then.
/// Exact: the order of such a row is one of a few additions. `order`: a
/// device's, where that is not the canonical one; there reductions that need each other stay. The plan is for rows of
/// this length alone.
void write_short_rows(ir::Graph& g, const ReduceOrder* order);

}  // namespace smolder::jit
