// Names and properties of the elementwise primitives (primitives.def). What they compute is emit.h's.
#pragma once

#include <cstdint>
#include <string_view>

#include "smolder/core/dtype.h"

namespace smolder::ir::scalar {

enum class Primitive : uint8_t {
#define PRIMITIVE(enumerator, ...) enumerator,
#include "smolder/ir/scalar/primitives.def"
};

struct PrimitiveInfo {
  enum Dtypes : uint8_t { B = 1, I = 2, F = 4, BI = B | I, IF = I | F, BIF = B | I | F };
  enum Result : uint8_t { kSame, kBool };
  enum Rounding : uint8_t { kExact, kRounded };

  std::string_view name;
  int arity;
  Dtypes dtypes;
  Result result;
  Rounding rounding;
  double cost;  ///< nanoseconds an element takes in vector code on one core, roughly

  /// Whether operands of `t` are defined.
  constexpr bool takes(DType t) const { return (dtypes >> static_cast<int>(category(t))) & 1; }
  constexpr DType result_dtype(DType t) const { return result == kBool ? DType::kBool : t; }
};

namespace detail {
inline constexpr PrimitiveInfo kPrimitives[] = {
#define PRIMITIVE(enumerator, name, arity, dtypes, result, rounding, cost, arithmetic) \
  {name, arity, PrimitiveInfo::dtypes, PrimitiveInfo::result, PrimitiveInfo::rounding, cost},
#include "smolder/ir/scalar/primitives.def"
};
}  // namespace detail

inline constexpr int kNumPrimitives = sizeof(detail::kPrimitives) / sizeof(PrimitiveInfo);

constexpr const PrimitiveInfo& info(Primitive p) { return detail::kPrimitives[static_cast<int>(p)]; }

}  // namespace smolder::ir::scalar
