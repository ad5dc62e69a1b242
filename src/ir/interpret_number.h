// Arithmetic of the reference interpreter: one number at a time, floats by libm in double. Shares nothing with
// ir/scalar but the names of the primitives, so that each can be checked against the other.
#pragma once

#include <cstdint>
#include <span>

#include "smolder/core/dtype.h"
#include "smolder/core/scalar.h"
#include "smolder/ir/builder.h"
#include "smolder/ir/scalar/primitive.h"

namespace smolder::ir::reference {

using scalar::Primitive;
using scalar::PrimitiveInfo;

/// A double as float dtype `t` holds it: rounded to nearest even, to a half by way of float32.
double round_to(double v, DType t);
/// A number as dtype `t` holds it, by the rules of a cast: to bool is `!= 0`, between integers wraps, float to
/// integer truncates and saturates (to uint8: wraps), nan gives 0. The result's category is that of `t`.
Scalar convert(Scalar v, DType t);
/// The primitive on operands that are values of dtype `t` (of its compute type, where they were Python numbers),
/// rounded to the result's dtype. `where` has a bool in front.
Scalar evaluate(Primitive p, DType t, std::span<const Scalar> operands);

/// The start of a reduction, and one step of it: in double or int64, not rounded to `t`.
Scalar identity(ReduceKind kind, DType t);
Scalar accumulate(ReduceKind kind, Scalar sum, Scalar v);

/// The four 32-bit words of Philox4x32-10 for a counter and a key.
struct Philox {
  uint32_t word[4];
};
Philox philox(uint64_t counter_low, uint64_t counter_high, uint64_t key);

}  // namespace smolder::ir::reference
