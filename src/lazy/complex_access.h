// Questions of recording about complex numbers: see complex.h, which is above it. Defined in complex.cpp.
#pragma once

#include <cstdint>
#include <span>

#include "smolder/ir/op.h"

namespace smolder {
class Tensor;
}

namespace smolder::lazy {

class Operand;

/// Records an op that has a complex operand. Throws NotImplementedError, in torch's words, for one without a rule.
void record_complex(ir::Op op, std::span<const Operand> operands, std::span<const int64_t> attrs, Tensor* outputs);

}  // namespace smolder::lazy
