// An element of a dtype in memory: its C++ type, and the number that it is.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "smolder/core/dtype.h"
#include "smolder/core/error.h"
#include "smolder/core/half.h"

namespace smolder {

/// Calls `f(T{})` with the type that elements of `t` have in memory. Throws InternalError for complex ones, which are
/// two numbers each: graphs and kernels have none.
decltype(auto) with_type(DType t, auto&& f) {
  switch (t) {
    case DType::kBool:
      return f(bool{});
    case DType::kUInt8:
      return f(uint8_t{});
    case DType::kInt8:
      return f(int8_t{});
    case DType::kInt16:
      return f(int16_t{});
    case DType::kInt32:
      return f(int32_t{});
    case DType::kInt64:
      return f(int64_t{});
    case DType::kFloat16:
      return f(Float16{});
    case DType::kBFloat16:
      return f(BFloat16{});
    case DType::kFloat32:
      return f(float{});
    case DType::kFloat64:
      return f(double{});
    case DType::kComplex64:
    case DType::kComplex128:
      break;
  }
  raise<InternalError>("internal error: elements of ", name(t), " where graphs and kernels have none");
}

/// Element `i` as a bool, an int64 or a double. The program may have written a bool: every byte but 0 is true.
template <class T>
auto number_at(const void* data, int64_t i) {
  using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
  Stored v;
  std::memcpy(&v, static_cast<const char*>(data) + i * static_cast<int64_t>(sizeof v), sizeof v);
  if constexpr (std::is_same_v<T, bool>) {
    return v != 0;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<int64_t>(v);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>(v);
  } else {
    return static_cast<double>(to_float(v));
  }
}

}  // namespace smolder
