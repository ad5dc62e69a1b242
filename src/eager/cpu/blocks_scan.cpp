// The loops of running reductions. Sums and products of floats are carried in float64, so that a long scan loses
// nothing that its dtype could hold.
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "smolder/core/half.h"
#include "smolder/eager/cpu/blocks.h"

namespace smolder::eager::cpu {
namespace {

using ir::ScanKind;

template <class T>
constexpr bool kIsFloat = !std::is_integral_v<T>;
template <class T>
constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

/// What a scan carries from one element to the next.
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

/// Groups of four are summed within, then the carry is added. It is kept in every lane, so that from one group to the
/// next there is one addition to wait for and nothing else.
template <class T>
void sum_row(const T* in, int64_t n, T* out) {
  Four carry{};
  int64_t i = 0;
  if constexpr (!kIsHalf<T>) {
    for (; i + kScanGroup <= n; i += kScanGroup) {
      FourOf<T> p;
      std::memcpy(&p, in + i, sizeof(p));
      const Four v = sum_group(__builtin_convertvector(p, Four));
      p = __builtin_convertvector(v + carry, FourOf<T>);
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

template <ScanKind K, class T>
void row(const void* in, int64_t n, void* out) {
  const T* from = static_cast<const T*>(in);
  T* to = static_cast<T*>(out);
  if constexpr (K == ScanKind::kSum && kIsFloat<T>) {
    sum_row(from, n, to);
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
constexpr ScanFns kLoops = {row<K, T>, reset<K, T>, column<K, T>};

template <class T>
const ScanFns& of_type(ScanKind kind) {
  static constexpr ScanFns kAll[] = {kLoops<ScanKind::kSum, T>, kLoops<ScanKind::kProd, T>, kLoops<ScanKind::kMax, T>,
                                     kLoops<ScanKind::kMin, T>};
  return kAll[static_cast<int>(kind)];
}

}  // namespace

const ScanFns& scan_fns(ScanKind kind, DType t) {
  switch (t) {
    case DType::kBool:
      return of_type<bool>(kind);
    case DType::kUInt8:
      return of_type<uint8_t>(kind);
    case DType::kInt32:
      return of_type<int32_t>(kind);
    case DType::kInt64:
      return of_type<int64_t>(kind);
    case DType::kFloat16:
      return of_type<Float16>(kind);
    case DType::kBFloat16:
      return of_type<BFloat16>(kind);
    case DType::kFloat32:
      return of_type<float>(kind);
    default:
      return of_type<double>(kind);
  }
}

}  // namespace smolder::eager::cpu
