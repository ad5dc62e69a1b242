#include "smolder/distributed/combine.h"

#include <cmath>
#include <type_traits>

#include "smolder/core/error.h"
#include "smolder/core/half.h"

namespace smolder::distributed {
namespace {

template <class T>
struct Plain {
  using Stored = T;
  static T read(T v) { return v; }
  static T write(T v) { return v; }
};
struct Half {
  using Stored = Float16;
  static float read(Float16 v) { return to_float(v); }
  static Float16 write(float v) { return to_float16(v); }
};
struct Brain {
  using Stored = BFloat16;
  static float read(BFloat16 v) { return to_float(v); }
  static BFloat16 write(float v) { return to_bfloat16(v); }
};

template <class T>
bool is_nan(T v) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(v);
  return false;
}

template <Reduce reduce, class T>
T combined(T a, T b) {
  // Integers wrap, which is undefined of signed ones.
  if constexpr (std::is_integral_v<T> && (reduce == Reduce::kSum || reduce == Reduce::kProduct)) {
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<T>(reduce == Reduce::kSum ? x + y : x * y);
  }
  if constexpr (reduce == Reduce::kSum) return a + b;
  if constexpr (reduce == Reduce::kProduct) return a * b;
  if constexpr (reduce == Reduce::kMin) return is_nan(a) || a < b ? a : b;  // nan stays, as in minimum()
  if constexpr (reduce == Reduce::kMax) return is_nan(a) || a > b ? a : b;
  if constexpr (std::is_integral_v<T>) {
    if constexpr (reduce == Reduce::kBand) return static_cast<T>(a & b);
    if constexpr (reduce == Reduce::kBor) return static_cast<T>(a | b);
    if constexpr (reduce == Reduce::kBxor) return static_cast<T>(a ^ b);
  }
}

template <Reduce reduce, class Kind>
void combine(void* to, const void* a, const void* b, size_t count) {
  using Stored = typename Kind::Stored;
  auto* const out = static_cast<Stored*>(to);
  const auto* const x = static_cast<const Stored*>(a);
  const auto* const y = static_cast<const Stored*>(b);
  for (size_t i = 0; i < count; ++i) out[i] = Kind::write(combined<reduce>(Kind::read(x[i]), Kind::read(y[i])));
}

template <class Kind>
Combine of_kind(Reduce reduce) {
  switch (reduce) {
    case Reduce::kSum:
      return &combine<Reduce::kSum, Kind>;
    case Reduce::kProduct:
      return &combine<Reduce::kProduct, Kind>;
    case Reduce::kMin:
      return &combine<Reduce::kMin, Kind>;
    case Reduce::kMax:
      return &combine<Reduce::kMax, Kind>;
    default:
      break;
  }
  if constexpr (std::is_integral_v<typename Kind::Stored>) {
    if (reduce == Reduce::kBand) return &combine<Reduce::kBand, Kind>;
    return reduce == Reduce::kBor ? &combine<Reduce::kBor, Kind> : &combine<Reduce::kBxor, Kind>;
  }
  raise<TypeError>("ReduceOp.", name(reduce), " works on the bits of integers, not on floats");
}

}  // namespace

std::string_view name(Reduce reduce) {
  constexpr std::string_view kNames[] = {"SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"};
  return kNames[static_cast<size_t>(reduce)];
}

Combine combine_of(Reduce reduce, DType dtype) {
  switch (dtype) {
    case DType::kBool:
      if (reduce == Reduce::kSum || reduce == Reduce::kMax) return of_kind<Plain<uint8_t>>(Reduce::kBor);
      if (reduce == Reduce::kProduct || reduce == Reduce::kMin) return of_kind<Plain<uint8_t>>(Reduce::kBand);
      return of_kind<Plain<uint8_t>>(reduce);
    case DType::kUInt8:
      return of_kind<Plain<uint8_t>>(reduce);
    case DType::kInt8:
      return of_kind<Plain<int8_t>>(reduce);
    case DType::kInt16:
      return of_kind<Plain<int16_t>>(reduce);
    case DType::kInt32:
      return of_kind<Plain<int32_t>>(reduce);
    case DType::kInt64:
      return of_kind<Plain<int64_t>>(reduce);
    case DType::kFloat16:
      return of_kind<Half>(reduce);
    case DType::kBFloat16:
      return of_kind<Brain>(reduce);
    case DType::kFloat32:
      return of_kind<Plain<float>>(reduce);
    case DType::kFloat64:
      return of_kind<Plain<double>>(reduce);
    case DType::kComplex64:
    case DType::kComplex128:
      break;
  }
  raise<TypeError>("collectives do not reduce ", name(dtype), ": reduce view_as_real() of it");
}

}  // namespace smolder::distributed
