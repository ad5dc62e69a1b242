// gemm::Kernels in the compiler's vector extension, 16 bytes wide: NEON on AArch64, SSE2 on x86-64.
// Without a fused multiply-add (plain x86-64) products are rounded before they are added.
#include <cstdint>
#include <type_traits>

#include "smolder/core/half.h"
#include "smolder/eager/cpu/gemm.h"
#if defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace smolder::eager::gemm {
namespace {

#if defined(__aarch64__)
constexpr int kTileRows = 8, kTileVectors = 3;  // 32 registers
#else
constexpr int kTileRows = 4, kTileVectors = 2;  // 16 registers
#endif

template <class T>
struct Simd {
  static constexpr int W = 16 / sizeof(T), kRows = kTileRows, kVectors = kTileVectors;
  typedef T V __attribute__((vector_size(16)));

  static V zero() { return V{}; }
  static V load(const T* p) {
    V v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
  static V load(const auto* p) {
    V v;
    for (int i = 0; i < W; ++i) v[i] = to_float(p[i]);
    return v;
  }
  static void store(T* p, V v) { __builtin_memcpy(p, &v, sizeof v); }
  static void store(BFloat16* p, V v) {
    for (int i = 0; i < W; ++i) p[i] = to_bfloat16(v[i]);
  }
  static void store(Float16* p, V v) {
    for (int i = 0; i < W; ++i) p[i] = to_float16(v[i]);
  }
  static void copy_narrow(const auto* from, T* to) {
    for (int i = 0; i < kRows; i += W) store(to + i, load(from + i));
  }
  static V broadcast(const T* p) { return V{} + *p; }
  static V fma(V a, V b, V c) {
#if defined(__aarch64__)
    if constexpr (sizeof(T) == 4) {
      return (V)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
    } else {
      return (V)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
    }
#else
    return a * b + c;
#endif
  }
  static V add(V a, V b) { return a + b; }
  static V relu(V v) { return v < V{} ? V{} : v; }

  template <class E>
  static constexpr int kTurn = W;

  template <class E>
  static void turn(const E* const* rows, T* dst, int64_t pitch) {
    V wide[W];
    for (int i = 0; i < W; ++i) wide[i] = load(rows[i]);
    for (int p = 0; p < W; ++p) {
      for (int i = 0; i < W; ++i) dst[p * pitch + i] = wide[i][p];
    }
  }
};

}  // namespace
}  // namespace smolder::eager::gemm

#include "smolder/eager/cpu/gemm_impl.h"

namespace smolder::eager::gemm {

template <class T>
const Kernels<T>* portable_kernels() {
  static constexpr Kernels<T> table = make_kernels<T>("portable");
  return &table;
}
template const Kernels<float>* portable_kernels<float>();
template const Kernels<double>* portable_kernels<double>();

}  // namespace smolder::eager::gemm
