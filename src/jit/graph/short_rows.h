// Sums of few neighbours, as of the coordinates of points, as what they are: some additions.
#pragma once

#include "smolder/jit/program.h"

namespace smolder::jit {

/// Makes a reduction of rows of two to four elements, of which there are many, elementwise in as many slices: loops
/// then run over the rows, not over a row. Exact: the canonical order of such a row is one of a few additions. The plan
/// is for rows of this length alone.
void write_short_rows(ir::Graph& g);

}  // namespace smolder::jit
