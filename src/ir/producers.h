// Questions of decompositions about how their operands were made.
#pragma once

#include <vector>

#include "smolder/ir/builder.h"

namespace smolder::ir {

inline const Node& producer(Value x) { return x.b->graph().producer(x.id); }
inline Value operand(Value x, int i) { return x.b->wrap(producer(x).inputs[i]); }

/// Axes of the permutation that makes x, none negative.
std::vector<int> permuted_axes(Value x);
/// Are the elements of x along `axis` the same, whatever they are? A "no" may be a "perhaps".
bool repeats(Value x, int axis);

}  // namespace smolder::ir
