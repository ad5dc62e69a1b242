// Element types, their properties and torch's promotion rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace smolder {

/// Element type of a tensor. The order is the promotion order within a category.
enum class DType : uint8_t {
  kBool,
  kUInt8,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kComplex64,
  kComplex128
};
/// Those that graphs and kernels know. A complex number is two real ones to them: see lazy/complex.h.
inline constexpr int kNumDTypes = 10;
inline constexpr int kNumTensorDTypes = 12;

/// Scalar category: Python numbers promote by category, not by width.
enum class Category : uint8_t { kBool, kInt, kFloat, kComplex };

constexpr Category category(DType t) {
  return t == DType::kBool       ? Category::kBool
         : t < DType::kFloat16   ? Category::kInt
         : t < DType::kComplex64 ? Category::kFloat
                                 : Category::kComplex;
}
constexpr bool is_floating(DType t) { return category(t) == Category::kFloat; }
constexpr bool is_complex(DType t) { return t >= DType::kComplex64; }
/// Whether values have gradients.
constexpr bool is_differentiable(DType t) { return is_floating(t) || is_complex(t); }
/// The dtype of the real and the imaginary part; `t` where it is not complex.
constexpr DType part_type(DType t) {
  return t == DType::kComplex64 ? DType::kFloat32 : t == DType::kComplex128 ? DType::kFloat64 : t;
}
/// The complex one whose parts hold a `t`; complex64 for what is no float64.
constexpr DType complex_type(DType t) {
  return part_type(t) == DType::kFloat64 ? DType::kComplex128 : DType::kComplex64;
}
/// float16 and bfloat16: computed in float32, rounded after each op.
constexpr bool is_half(DType t) { return t == DType::kFloat16 || t == DType::kBFloat16; }

/// int8 and int16: computed in int32, wrapped after each op.
constexpr bool is_small_signed(DType t) { return t == DType::kInt8 || t == DType::kInt16; }

/// Bytes of one element.
constexpr size_t itemsize(DType t) {
  constexpr size_t kSizes[] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
  return kSizes[static_cast<int>(t)];
}
/// The range of an integer type; of bool 0 and 1.
constexpr int64_t lowest_integer(DType t) {
  return t == DType::kBool || t == DType::kUInt8 ? 0 : -(int64_t{1} << (8 * itemsize(t) - 2)) * 2;
}
constexpr int64_t highest_integer(DType t) {
  return t == DType::kBool ? 1 : t == DType::kUInt8 ? 255 : -(lowest_integer(t) + 1);
}
/// torch's name without the prefix: "float32".
std::string_view name(DType t);
/// Inverse of `name`; empty when the name is unknown.
std::optional<DType> parse_dtype(std::string_view name);

/// torch.promote_types: the smallest type that both convert to.
DType promote(DType a, DType b);
/// Promotion of a tensor type with a Python number: the tensor's type unless the number's category
/// is higher, then int64 or the default float type (torch's "wrapped number" rule).
DType promote(DType tensor, Category number, DType default_float = DType::kFloat32);

/// The type that arithmetic on `t` is carried out in: float32 for the halves, int32 for int8 and int16, else `t`.
constexpr DType compute_type(DType t) { return is_half(t) ? DType::kFloat32 : is_small_signed(t) ? DType::kInt32 : t; }

}  // namespace smolder
