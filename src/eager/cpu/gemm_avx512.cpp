// gemm::Kernels for AVX-512 (F, DQ, BW, VL): 32 registers of 64 bytes, tiles of 8 x 48 floats.
//
// bfloat16 is widened to float32: VDPBF16PS has half the throughput of float32 multiply-adds on Sapphire
// Rapids (64 against 128 operations a cycle and core), flushes denormals and rounds differently.
#include <cstdint>
#include <type_traits>

#include "smolder/core/half.h"
#include "smolder/eager/cpu/gemm.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,f16c"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,f16c,prefer-vector-width=512")
#pragma GCC diagnostic ignored "-Wuninitialized"  // of the intrinsics' own placeholders: GCC bug 105593
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace smolder::eager::gemm {
namespace {

template <class T>
struct Simd;

template <>
struct Simd<float> {
  using V = __m512;
  static constexpr int W = 16, kRows = 8, kVectors = 3;
  static V zero() { return _mm512_setzero_ps(); }
  static V load(const float* p) { return _mm512_loadu_ps(p); }
  static V load(const BFloat16* p) {
    const __m256i raw = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(raw), 16));
  }
  static V load(const Float16* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
  static void store(float* p, V v) { _mm512_storeu_ps(p, v); }
  static void store(BFloat16* p, V v) {  // not VCVTNEPS2BF16, which flushes denormals
    const __m512i u = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i r = _mm512_srli_epi32(_mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    r = _mm512_mask_or_epi32(r, nan, _mm512_srli_epi32(u, 16), _mm512_set1_epi32(0x40));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(r));
  }
  static void store(Float16* p, V v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  static void copy_narrow(const float* from, float* to) { _mm256_storeu_ps(to, _mm256_loadu_ps(from)); }
  static void copy_narrow(const BFloat16* from, float* to) {
    const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    _mm256_storeu_ps(to, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(raw), 16)));
  }
  static void copy_narrow(const Float16* from, float* to) {
    _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
  }
  static V broadcast(const float* p) { return _mm512_set1_ps(*p); }
  static V fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
  static V add(V a, V b) { return _mm512_add_ps(a, b); }
  static V relu(V v) { return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(v, zero(), _CMP_NLT_UQ), v); }

  template <class E>
  static constexpr int kTurn = sizeof(E) == 2 ? 32 : 16;  // a cache line of each row

  /// Rows first go side by side in L1: rows a multiple of 4 KiB apart share a set, which cannot hold sixteen.
  template <class E>
  static void turn(const E* const* rows, float* dst, int64_t pitch) {
    alignas(64) float lines[W * 16];
#pragma GCC unroll 16
    for (int i = 0; i < W; ++i) _mm512_store_si512(lines + 16 * i, _mm512_loadu_si512(rows[i]));
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
      __m512 column[4];
      turn_quarter(lines + 4 * q, column);
#pragma GCC unroll 4
      for (int p = 0; p < 4; ++p) put<E>(column[p], dst + (4 * q + p) * pitch * (kTurn<E> / 16), pitch);
    }
  }

 private:
  /// Lane L holds four elements of row i + 4L: three of the four lanes come from masked loads, which spare
  /// the one shuffle port.
  static __m512 gather(const float* lines, int i) {
    const auto at = [&](int row) { return _mm_load_ps(lines + 16 * row); };
    __m512 v = _mm512_castps128_ps512(at(i));
    v = _mm512_mask_broadcast_f32x4(v, 0x00f0, at(i + 4));
    v = _mm512_mask_broadcast_f32x4(v, 0x0f00, at(i + 8));
    return _mm512_mask_broadcast_f32x4(v, 0xf000, at(i + 12));
  }
  /// Four columns of sixteen rows: what gather() leaves is a 4 x 4 transpose within lanes.
  static void turn_quarter(const float* lines, __m512 (&column)[4]) {
    const __m512 a = gather(lines, 0), b = gather(lines, 1), c = gather(lines, 2), d = gather(lines, 3);
    const __m512d ab_low = _mm512_castps_pd(_mm512_unpacklo_ps(a, b));
    const __m512d ab_high = _mm512_castps_pd(_mm512_unpackhi_ps(a, b));
    const __m512d cd_low = _mm512_castps_pd(_mm512_unpacklo_ps(c, d));
    const __m512d cd_high = _mm512_castps_pd(_mm512_unpackhi_ps(c, d));
    column[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab_low, cd_low));
    column[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(ab_low, cd_low));
    column[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab_high, cd_high));
    column[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(ab_high, cd_high));
  }
  /// Stores a turned column; of halves, the two columns that lie in its words.
  template <class E>
  static void put(__m512 v, float* dst, int64_t pitch) {
    const __m512i raw = _mm512_castps_si512(v);
    if constexpr (sizeof(E) == 4) {
      store(dst, v);
    } else if constexpr (std::is_same_v<E, BFloat16>) {
      store(dst, _mm512_castsi512_ps(_mm512_slli_epi32(raw, 16)));
      store(dst + pitch, _mm512_castsi512_ps(_mm512_and_si512(raw, _mm512_set1_epi32(static_cast<int>(0xffff0000)))));
    } else {
      store(dst, _mm512_cvtph_ps(_mm512_cvtepi32_epi16(raw)));
      store(dst + pitch, _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(raw, 16))));
    }
  }
};

template <>
struct Simd<double> {
  using V = __m512d;
  static constexpr int W = 8, kRows = 8, kVectors = 3;
  static V zero() { return _mm512_setzero_pd(); }
  static V load(const double* p) { return _mm512_loadu_pd(p); }
  static void store(double* p, V v) { _mm512_storeu_pd(p, v); }
  static void copy_narrow(const double* from, double* to) { store(to, load(from)); }
  static V broadcast(const double* p) { return _mm512_set1_pd(*p); }
  static V fma(V a, V b, V c) { return _mm512_fmadd_pd(a, b, c); }
  static V add(V a, V b) { return _mm512_add_pd(a, b); }
  static V relu(V v) { return _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(v, zero(), _CMP_NLT_UQ), v); }

  template <class E>
  static constexpr int kTurn = 8;

  static void turn(const double* const* rows, double* dst, int64_t pitch) {
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
      const __m512d a = gather(rows, 0, q), b = gather(rows, 1, q);
      store(dst + 2 * q * pitch, _mm512_unpacklo_pd(a, b));
      store(dst + (2 * q + 1) * pitch, _mm512_unpackhi_pd(a, b));
    }
  }

 private:
  /// Lane L holds two elements of row i + 2L.
  static __m512d gather(const double* const* rows, int i, int q) {
    const auto at = [&](int row) { return _mm_loadu_pd(rows[row] + 2 * q); };
    __m512d v = _mm512_castpd128_pd512(at(i));
    v = _mm512_mask_broadcast_f64x2(v, 0x0c, at(i + 2));
    v = _mm512_mask_broadcast_f64x2(v, 0x30, at(i + 4));
    return _mm512_mask_broadcast_f64x2(v, 0xc0, at(i + 6));
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
const Kernels<T>* avx512_kernels() {
#if defined(__x86_64__)
  static const bool able = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                           __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  static constexpr Kernels<T> table = make_kernels<T>("avx512");
  return able ? &table : nullptr;
#else
  return nullptr;
#endif
}
template const Kernels<float>* avx512_kernels<float>();
template const Kernels<double>* avx512_kernels<double>();

}  // namespace smolder::eager::gemm
