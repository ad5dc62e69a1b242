#include "src/bench_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// Compiled for the widest vectors of common processors and chosen when loaded.
#if defined(__x86_64__) && defined(__linux__)
#define SMOLDER_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define SMOLDER_WIDE
#endif

namespace smolder::python {

SMOLDER_WIDE void scale_loop(float* __restrict y, const float* __restrict x, float factor, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * factor;
}

SMOLDER_WIDE float sum_loop(const float* x, int64_t n) {
  constexpr int kLanes = 64;  // enough independent sums to hide the latency of an addition
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int k = 0; k < kLanes; ++k) lanes[k] += x[i + k];
  }
  float sum = 0;
  for (; i < n; ++i) sum += x[i];
  for (const float lane : lanes) sum += lane;
  return sum;
}

void scale_loop_streaming(float* y, const float* x, float factor, int64_t n) {
#if defined(__x86_64__)
  const __m128 f = _mm_set1_ps(factor);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {  // a whole line, so that it is written at once
    for (int k = 0; k < 16; k += 4) _mm_stream_ps(y + i + k, _mm_mul_ps(_mm_loadu_ps(x + i + k), f));
  }
  _mm_sfence();
  for (; i < n; ++i) y[i] = x[i] * factor;
#else
  scale_loop(y, x, factor, n);
#endif
}

}  // namespace smolder::python
