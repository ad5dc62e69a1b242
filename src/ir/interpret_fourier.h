// Fourier transforms as the reference interpreter computes them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "smolder/ir/op.h"

namespace smolder::ir::reference {

/// The primitives fft_c2c, fft_r2c and fft_c2r by their sums, of row-major elements.
std::vector<double> transform(Op op, const std::vector<double>& x, const Dims& shape, std::span<const int64_t> attrs);

}  // namespace smolder::ir::reference
