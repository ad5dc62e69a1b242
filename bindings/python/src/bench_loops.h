// The plain loops that bandwidth is measured with.
#pragma once

#include <cstdint>

namespace smolder::python {

/// y[i] = x[i] * factor, with ordinary stores.
void scale_loop(float* y, const float* x, float factor, int64_t n);
/// The same with stores that bypass the caches, where the processor has them (else ordinary ones).
/// `y` is aligned to 64 bytes.
void scale_loop_streaming(float* y, const float* x, float factor, int64_t n);
/// Sum of x, in the fastest order.
float sum_loop(const float* x, int64_t n);

}  // namespace smolder::python
