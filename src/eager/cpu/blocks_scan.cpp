// The loops of running reductions. Sums and products of floats are carried in float64, so that a long scan loses
// nothing that its dtype could hold.
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "smolder/core/element.h"
#include "smolder/eager/cpu/blocks.h"
#include "smolder/eager/cpu/matmul.h"

namespace smolder::eager::cpu {
namespace {

using ir::ScanKind;

template <class T>
constexpr bool kIsFloat = !std::is_integral_v<T>;
template <class T>
constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

/// The state that a scan carries from one element to the next.
template <ScanKind K, class T>
using Carry = std::conditional_t<kIsFloat<T>, double, T>;

template <class T>
auto widen(T x) {
  if constexpr (kIsHalf<T>) {
    return static_cast<double>(to_float(x));
  } else if constexpr (kIsFloat<T>) {
    return static_cast<double>(x);
  } else {
    return x;
  }
}
template <class T, class C>
T narrow(C x) {
  if constexpr (std::is_same_v<T, Float16>) {
    return to_float16(static_cast<float>(x));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(static_cast<float>(x));
  } else {
    return static_cast<T>(x);
  }
}

template <ScanKind K, class C>
constexpr C identity() {
  using Limits = std::numeric_limits<C>;
  constexpr C kTop = Limits::has_infinity ? Limits::infinity() : Limits::max();
  constexpr C kBottom = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  return K == ScanKind::kSum ? C(0) : K == ScanKind::kProd ? C(1) : K == ScanKind::kMax ? kBottom : kTop;
}

template <class C>
bool is_nan(C x) {
  if constexpr (std::is_floating_point_v<C>) {
    return std::isnan(x);
  } else {
    return false;
  }
}

/// Integers wrap, bools are or'ed and and'ed; extremes keep nan, and of equal elements the first.
template <ScanKind K, class C>
C step(C sum, C x) {
  if constexpr (K == ScanKind::kMax) {
    return x > sum || is_nan(x) ? x : sum;
  } else if constexpr (K == ScanKind::kMin) {
    return x < sum || is_nan(x) ? x : sum;
  } else if constexpr (std::is_same_v<C, bool>) {
    return K == ScanKind::kSum ? sum || x : sum && x;
  } else if constexpr (std::is_integral_v<C>) {
    const auto a = static_cast<uint64_t>(sum), b = static_cast<uint64_t>(x);
    return static_cast<C>(K == ScanKind::kSum ? a + b : a * b);
  } else {
    return K == ScanKind::kSum ? sum + x : sum * x;
  }
}

using Four = double __attribute__((vector_size(32)));
using FourFloats = float __attribute__((vector_size(16)));
template <class T>
using FourOf = std::conditional_t<sizeof(T) == 4, FourFloats, Four>;

/// Sums of the elements of a group up to each.
Four sum_group(Four v) {
  const Four none{};
  v += __builtin_shufflevector(v, none, 4, 0, 1, 2);
  v += __builtin_shufflevector(v, none, 4, 5, 0, 1);
  return v;
}

template <class T>
Four load_group(const T* from) {
#if defined(__x86_64__)
  if constexpr (sizeof(T) == 4) return _mm256_cvtps_pd(_mm_loadu_ps(from));  // what GCC makes of the below takes six
#endif
  FourOf<T> p;
  std::memcpy(&p, from, sizeof(p));
  return __builtin_convertvector(p, Four);
}

/// Groups of four are summed within, then the carry is added. It is kept in every lane, so that from one group to the
/// next there is one addition to wait for and nothing else.
template <class T>
void sum_row(const T* in, int64_t n, double before, T* out) {
  Four carry = {before, before, before, before};
  int64_t i = 0;
  if constexpr (!kIsHalf<T>) {
    for (; i + kScanGroup <= n; i += kScanGroup) {
      const Four v = sum_group(load_group(in + i));
      const auto p = __builtin_convertvector(v + carry, FourOf<T>);
      std::memcpy(out + i, &p, sizeof(p));
      carry += __builtin_shufflevector(v, v, 3, 3, 3, 3);
    }
  }
  for (; i < n; i += kScanGroup) {
    const int64_t count = n - i < kScanGroup ? n - i : kScanGroup;
    Four v{};
    for (int64_t k = 0; k < count; ++k) v[k] = widen(in[i + k]);
    v = sum_group(v);
    const Four sums = v + carry;
    for (int64_t k = 0; k < count; ++k) out[i + k] = narrow<T>(sums[k]);
    carry += __builtin_shufflevector(v, v, 3, 3, 3, 3);
  }
}

/// The last lanes of four groups, in pairs as sum_group adds them.
template <class T>
void group_totals(const void* in, int64_t groups, double* totals) {
  const T* from = static_cast<const T*>(in);
  int64_t g = 0;
  for (; g + 4 <= groups; g += 4, from += 4 * kScanGroup) {
    const Four a = load_group(from), b = load_group(from + 4), c = load_group(from + 8), d = load_group(from + 12);
    const Four ab = __builtin_shufflevector(a, b, 0, 4, 2, 6) + __builtin_shufflevector(a, b, 1, 5, 3, 7);
    const Four cd = __builtin_shufflevector(c, d, 0, 4, 2, 6) + __builtin_shufflevector(c, d, 1, 5, 3, 7);
    const Four sums = __builtin_shufflevector(ab, cd, 2, 3, 6, 7) + __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    std::memcpy(totals + g, &sums, sizeof(sums));
  }
  for (; g < groups; ++g, from += kScanGroup) totals[g] = sum_group(load_group(from))[3];
}

/// The most that streaming stores write at once.
constexpr size_t kStreamAlignment = 32;

template <bool kStream, class T>
void store_group(T* to, Four v) {
  const auto p = __builtin_convertvector(v, FourOf<T>);
#if defined(__x86_64__)
  if constexpr (kStream && sizeof(T) == 4) return _mm_stream_ps(to, __m128(p));
  if constexpr (kStream && sizeof(T) == 8) return _mm256_stream_pd(to, __m256d(p));
#endif
  std::memcpy(to, &p, sizeof(p));
}

/// The first step of sum_group takes the neighbours from memory: moving them between lanes is what it waits for.
template <bool kStream, class T>
void spread_groups(const T* from, int64_t groups, const double* before, T* to, const char* next) {
  constexpr int64_t kLine = 64, kBytes = kScanGroup * sizeof(T);
  const auto carried = [&](int64_t g) { return Four{before[g], before[g], before[g], before[g]}; };
  store_group<kStream>(to, sum_group(load_group(from)) + carried(0));  // nothing may be before its first element
  const Four none{};
  for (int64_t g = 1; g < groups; ++g) {
    if (g * kBytes % kLine == 0) __builtin_prefetch(next + g * kBytes, 0, 2);
    Four v = load_group(from + g * kScanGroup);
    v += __builtin_shufflevector(load_group(from + g * kScanGroup - 1), none, 4, 1, 2, 3);
    v += __builtin_shufflevector(v, none, 4, 5, 0, 1);
    store_group<kStream>(to + g * kScanGroup, v + carried(g));
  }
#if defined(__x86_64__)
  if constexpr (kStream) _mm_sfence();
#endif
}

#if defined(__x86_64__)
#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"  // of the intrinsics' own placeholders: GCC bug 105593
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
/// The same of floats, two groups at a time: it takes a quarter less time.
template <bool kStream>
__attribute__((target("avx512f,avx512dq,avx512vl"))) void spread_pairs(const float* from, int64_t groups,
                                                                       const double* before, float* to,
                                                                       const char* next) {
  constexpr int64_t kPair = 2 * kScanGroup, kLine = 64;
  const __m512i by_one = _mm512_setr_epi64(0, 0, 1, 2, 4, 4, 5, 6), by_two = _mm512_setr_epi64(0, 0, 0, 1, 4, 4, 4, 5);
  for (int64_t g = 0; g < groups; g += 2, from += kPair, to += kPair, next += kPair * sizeof(float)) {
    if (g * kScanGroup * sizeof(float) % kLine == 0) __builtin_prefetch(next, 0, 2);
    __m512d v = _mm512_cvtps_pd(_mm256_loadu_ps(from));
    v = _mm512_add_pd(v, _mm512_maskz_permutexvar_pd(0xee, by_one, v));
    v = _mm512_add_pd(v, _mm512_maskz_permutexvar_pd(0xcc, by_two, v));
    const __m512d first = _mm512_set1_pd(before[g]);
    const __m512d both = _mm512_mask_broadcastsd_pd(first, 0xf0, _mm_load_sd(before + g + 1));
    const __m256 sums = _mm512_cvtpd_ps(_mm512_add_pd(v, both));
    kStream ? _mm256_stream_ps(to, sums) : _mm256_storeu_ps(to, sums);
  }
  if constexpr (kStream) _mm_sfence();
}
#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#endif

template <class T>
void spread_row(const void* in, int64_t groups, const double* before, void* out, const void* next, bool stream) {
  const T* from = static_cast<const T*>(in);
  T* to = static_cast<T*>(out);
  const char* ahead = static_cast<const char*>(next);
  stream = stream && reinterpret_cast<uintptr_t>(out) % kStreamAlignment == 0;
#if defined(__x86_64__)
  static const bool wide = std::string_view(matmul_isa()) == "avx512";
  if constexpr (sizeof(T) == 4) {
    if (wide && groups % 2 == 0)
      return (stream ? spread_pairs<true> : spread_pairs<false>)(from, groups, before, to, ahead);
  }
#endif
  (stream ? spread_groups<true, T> : spread_groups<false, T>)(from, groups, before, to, ahead);
}

template <class T>
void rest_of_row(const void* in, int64_t n, double carry, void* out) {
  sum_row(static_cast<const T*>(in), n, carry, static_cast<T*>(out));
}

template <ScanKind K, class T>
void row(const void* in, int64_t n, void* out) {
  const T* from = static_cast<const T*>(in);
  T* to = static_cast<T*>(out);
  if constexpr (K == ScanKind::kSum && kIsFloat<T>) {
    sum_row(from, n, 0.0, to);
  } else {
    auto sum = identity<K, Carry<K, T>>();
    for (int64_t i = 0; i < n; ++i) {
      sum = step<K>(sum, widen(from[i]));
      to[i] = narrow<T>(sum);
    }
  }
}

template <ScanKind K, class T>
void reset(void* carry, int64_t n) {
  auto* sums = static_cast<Carry<K, T>*>(carry);
  for (int64_t i = 0; i < n; ++i) sums[i] = identity<K, Carry<K, T>>();
}

template <ScanKind K, class T>
void column(const void* in, void* carry, void* out, int64_t n) {
  const T* from = static_cast<const T*>(in);
  T* to = static_cast<T*>(out);
  auto* sums = static_cast<Carry<K, T>*>(carry);
  for (int64_t i = 0; i < n; ++i) {
    sums[i] = step<K>(sums[i], widen(from[i]));
    to[i] = narrow<T>(sums[i]);
  }
}

template <ScanKind K, class T>
constexpr ScanFns make_loops() {
  ScanFns loops = {row<K, T>, reset<K, T>, column<K, T>, nullptr, nullptr, nullptr};
  if constexpr (K == ScanKind::kSum && kIsFloat<T> && !kIsHalf<T>) {
    loops.totals = group_totals<T>, loops.spread = spread_row<T>, loops.rest = rest_of_row<T>;
  }
  return loops;
}
template <ScanKind K, class T>
constexpr ScanFns kLoops = make_loops<K, T>();

template <class T>
const ScanFns& of_type(ScanKind kind) {
  static constexpr ScanFns kAll[] = {kLoops<ScanKind::kSum, T>, kLoops<ScanKind::kProd, T>, kLoops<ScanKind::kMax, T>,
                                     kLoops<ScanKind::kMin, T>};
  return kAll[static_cast<int>(kind)];
}

}  // namespace

double carry_groups(double carry, int64_t groups, double* totals) {
  for (int64_t g = 0; g < groups; ++g) {
    const double total = totals[g];
    totals[g] = carry;
    carry += total;
  }
  return carry;
}

const ScanFns& scan_fns(ScanKind kind, DType t) {
  return with_type(t, [kind]<class T>(T) -> const ScanFns& { return of_type<T>(kind); });
}

}  // namespace smolder::eager::cpu
