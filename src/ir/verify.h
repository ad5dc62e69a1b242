// Parts of verify() (graph.h), for those who infer results themselves.
#pragma once

#include "smolder/ir/graph.h"

namespace smolder::ir {

/// Checks all that rules rely on: order, operands, attribute words and sizes, but not what rules say of results. Throws
/// InternalError.
void verify_form(const Graph& g);

}  // namespace smolder::ir
