// Columns of a convolution, and one without a product, as loops that are for vectors.
#include <cmath>
#include <cstdint>

#include "smolder/eager/cpu/columns.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace smolder::eager::cpu {
namespace {

template <class T>
void add_scaled(T factor, const T* x, int64_t step, int64_t begin, int64_t end, T* out) {
  if (step == 1) {
    for (int64_t k = begin; k < end; ++k) out[k] = std::fma(factor, x[k], out[k]);
  } else {
    for (int64_t k = begin; k < end; ++k) out[k] = std::fma(factor, x[k * step], out[k]);
  }
}

template <class E>
void copy_row(const TapRows<E>& t, const E* from, E* out) {
  std::fill(out, out + t.first, E(0));
  if (t.step == 1) {
    std::copy(from + t.first, from + t.end, out + t.first);
  } else if (t.step == 2) {  // a constant, so that it is done by vectors
    for (int64_t k = t.first; k < t.end; ++k) out[k] = from[2 * k];
  } else {
    for (int64_t k = t.first; k < t.end; ++k) out[k] = from[k * t.step];
  }
  std::fill(out + t.end, out + t.count, E(0));
}

#if defined(__x86_64__)
/// Rows are short, so that what they begin and end with takes longer than what is between. Masks do all alike: what
/// they hide is not read and is zero.
template <int kStep>
void copy_masked(const TapRows<uint32_t>& t) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i before = _mm256_set1_epi32(static_cast<int>(t.first - 1));
  const __m256i end = _mm256_set1_epi32(static_cast<int>(t.end));
  const auto within = [&](__m256i k) {
    return _mm256_and_si256(_mm256_cmpgt_epi32(k, before), _mm256_cmpgt_epi32(end, k));
  };
  for (int64_t r = 0; r < t.rows; ++r) {
    const auto* const from = reinterpret_cast<const int*>(t.from + r * t.row);
    uint32_t* const out = t.out + r * t.count;
    for (int64_t k = 0; k < t.count; k += 8) {
      const __m256i mask = within(_mm256_add_epi32(lanes, _mm256_set1_epi32(static_cast<int>(k))));
      __m256i seen;
      if constexpr (kStep == 1) {
        seen = _mm256_maskload_epi32(from + k, mask);
      } else {  // even elements of twice as many
        const __m256i low = _mm256_cvtepu32_epi64(_mm256_castsi256_si128(mask));
        const __m256i high = _mm256_cvtepu32_epi64(_mm256_extracti128_si256(mask, 1));
        const __m256 a = _mm256_castsi256_ps(_mm256_maskload_epi32(from + 2 * k, low));
        const __m256 b = _mm256_castsi256_ps(_mm256_maskload_epi32(from + 2 * k + 8, high));
        seen = _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88)), 0xd8);
      }
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + k), seen);
    }
  }
}
#endif

}  // namespace

template <class E>
void copy_taps(const TapRows<E>& t) {
#if defined(__x86_64__)
  if constexpr (sizeof(E) == 4) {
    if (t.step == 1) return copy_masked<1>(t);
    if (t.step == 2) return copy_masked<2>(t);
  }
#endif
  for (int64_t r = 0; r < t.rows; ++r) copy_row(t, t.from + r * t.row, t.out + r * t.count);
}

template void copy_taps(const TapRows<uint16_t>&);
template void copy_taps(const TapRows<uint32_t>&);
template void copy_taps(const TapRows<uint64_t>&);

template <class T>
void sum_taps(const ConvShape& s, const Images<const T>& x, const T* taps, T* out) {
  std::fill(out, out + s.positions(), T(0));
  for (int64_t row = 0; row < s.out_h; ++row, out += s.out_w) {
    for (int64_t tap = 0; tap < s.taps(); ++tap) {
      const int64_t at = row * s.stride_h + tap / s.kernel_w * s.dilation_h - s.pad_h;
      if (at < 0 || at >= s.height) continue;
      const ConvSpan span(s, tap % s.kernel_w);
      add_scaled(taps[tap], x.data + at * x.row + span.shift * x.column, s.stride_w * x.column, span.first, span.end,
                 out);
    }
  }
}

template void sum_taps(const ConvShape&, const Images<const float>&, const float*, float*);
template void sum_taps(const ConvShape&, const Images<const double>&, const double*, double*);

}  // namespace smolder::eager::cpu
