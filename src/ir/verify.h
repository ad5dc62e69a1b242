// Parts of verify() (graph.h), for those who infer results themselves.
#pragma once

#include <span>
#include <string>

#include "smolder/ir/graph.h"

namespace smolder::ir {

/// Checks all that rules rely on: order, operands, attribute words and sizes, but not what rules say of results. Throws
/// InternalError.
void verify_form(const Graph& g);

/// The part of a call of `op` that its signature does not allow: the number of operands, absent ones, attribute words.
/// Empty for nothing. Rules rely on it. A list of operands may have any length.
std::string wrong_call(const OpInfo& op, std::span<const ValueId> inputs, std::span<const Dim> words);

}  // namespace smolder::ir
