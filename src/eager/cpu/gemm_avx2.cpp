// gemm::Kernels for AVX2 with FMA and F16C: 16 registers of 32 bytes, tiles of 4 x 24 floats.
#include <cstdint>
#include <type_traits>

#include "smolder/core/half.h"
#include "smolder/eager/cpu/gemm.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif

namespace smolder::eager::gemm {
namespace {

template <class T>
struct Simd;

template <>
struct Simd<float> {
  using V = __m256;
  static constexpr int W = 8, kRows = 4, kVectors = 3;
  static V zero() { return _mm256_setzero_ps(); }
  static V load(const float* p) { return _mm256_loadu_ps(p); }
  static V load(const BFloat16* p) {
    const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(raw), 16));
  }
  static V load(const Float16* p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
  static void store(float* p, V v) { _mm256_storeu_ps(p, v); }
  static void store(BFloat16* p, V v) {
    const __m256i u = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_srli_epi32(_mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(0x40));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i r = _mm256_blendv_epi8(rounded, quiet, nan);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1)));
  }
  static void store(Float16* p, V v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  static void copy_narrow(const float* from, float* to) { _mm_storeu_ps(to, _mm_loadu_ps(from)); }
  static void copy_narrow(const BFloat16* from, float* to) {
    const __m128i raw = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
    _mm_storeu_ps(to, _mm_castsi128_ps(_mm_slli_epi32(_mm_cvtepu16_epi32(raw), 16)));
  }
  static void copy_narrow(const Float16* from, float* to) {
    _mm_storeu_ps(to, _mm_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
  }
  static V broadcast(const float* p) { return _mm256_broadcast_ss(p); }
  static V fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
  static V add(V a, V b) { return _mm256_add_ps(a, b); }
  static V relu(V v) { return _mm256_and_ps(v, _mm256_cmp_ps(v, zero(), _CMP_NLT_UQ)); }

  template <class E>
  static constexpr int kTurn = 8;

  template <class E>
  static void turn(const E* const* rows, float* dst, int64_t pitch) {
    __m256 r[8], s[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) r[i] = load(rows[i]);
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 4) {
      const __m256 a = _mm256_unpacklo_ps(r[i], r[i + 1]), b = _mm256_unpackhi_ps(r[i], r[i + 1]);
      const __m256 c = _mm256_unpacklo_ps(r[i + 2], r[i + 3]), d = _mm256_unpackhi_ps(r[i + 2], r[i + 3]);
      s[i] = _mm256_shuffle_ps(a, c, 0x44), s[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
      s[i + 2] = _mm256_shuffle_ps(b, d, 0x44), s[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
    }
#pragma GCC unroll 4
    for (int p = 0; p < 4; ++p) {
      store(dst + p * pitch, _mm256_permute2f128_ps(s[p], s[p + 4], 0x20));
      store(dst + (p + 4) * pitch, _mm256_permute2f128_ps(s[p], s[p + 4], 0x31));
    }
  }
};

template <>
struct Simd<double> {
  using V = __m256d;
  static constexpr int W = 4, kRows = 4, kVectors = 3;
  static V zero() { return _mm256_setzero_pd(); }
  static V load(const double* p) { return _mm256_loadu_pd(p); }
  static void store(double* p, V v) { _mm256_storeu_pd(p, v); }
  static void copy_narrow(const double* from, double* to) { store(to, load(from)); }
  static V broadcast(const double* p) { return _mm256_broadcast_sd(p); }
  static V fma(V a, V b, V c) { return _mm256_fmadd_pd(a, b, c); }
  static V add(V a, V b) { return _mm256_add_pd(a, b); }
  static V relu(V v) { return _mm256_and_pd(v, _mm256_cmp_pd(v, zero(), _CMP_NLT_UQ)); }

  template <class E>
  static constexpr int kTurn = 4;

  static void turn(const double* const* rows, double* dst, int64_t pitch) {
    const V a = load(rows[0]), b = load(rows[1]), c = load(rows[2]), d = load(rows[3]);
    const V ab_even = _mm256_unpacklo_pd(a, b), ab_odd = _mm256_unpackhi_pd(a, b);
    const V cd_even = _mm256_unpacklo_pd(c, d), cd_odd = _mm256_unpackhi_pd(c, d);
    store(dst, _mm256_permute2f128_pd(ab_even, cd_even, 0x20));
    store(dst + pitch, _mm256_permute2f128_pd(ab_odd, cd_odd, 0x20));
    store(dst + 2 * pitch, _mm256_permute2f128_pd(ab_even, cd_even, 0x31));
    store(dst + 3 * pitch, _mm256_permute2f128_pd(ab_odd, cd_odd, 0x31));
  }
};

}  // namespace
}  // namespace smolder::eager::gemm

#include "smolder/eager/cpu/gemm_impl.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif  // __x86_64__

namespace smolder::eager::gemm {

template <class T>
const Kernels<T>* avx2_kernels() {
#if defined(__x86_64__)
  static const bool able =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  static constexpr Kernels<T> table = make_kernels<T>("avx2");
  return able ? &table : nullptr;
#else
  return nullptr;
#endif
}
template const Kernels<float>* avx2_kernels<float>();
template const Kernels<double>* avx2_kernels<double>();

}  // namespace smolder::eager::gemm
