// Fourier transforms as the reference interpreter computes them.
#pragma once

#include <cstdint>
#include <span>

#include "smolder/ir/interpret.h"
#include "smolder/ir/op.h"

namespace smolder::ir::reference {

/// The primitives fft_c2c, fft_r2c and fft_c2r by their sums, in double.
PlainTensor transform(Op op, const PlainTensor& x, std::span<const int64_t> attrs, const Meta& out);

}  // namespace smolder::ir::reference
