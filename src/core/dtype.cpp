#include "smolder/core/dtype.h"

#include <array>

namespace smolder {
namespace {

constexpr std::array<std::string_view, kNumTensorDTypes> kNames = {"bool",    "uint8",   "int8",      "int16",
                                                                   "int32",   "int64",   "float16",   "bfloat16",
                                                                   "float32", "float64", "complex64", "complex128"};

}  // namespace

std::string_view name(DType t) { return kNames[static_cast<int>(t)]; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (int i = 0; i < kNumTensorDTypes; ++i) {
    if (kNames[i] == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (category(a) == category(b) && is_half(a) && is_half(b)) return DType::kFloat32;
  // The enumeration is ordered bool < integers < floats and by width within each, so the larger
  // one is the answer but for the two halves, which have no common half, and the two of 8 bits, which both fit in 16.
  if ((a == DType::kUInt8 && b == DType::kInt8) || (a == DType::kInt8 && b == DType::kUInt8)) return DType::kInt16;
  if (is_complex(a) != is_complex(b))
    return complex_type(is_complex(a) ? promote(part_type(a), b) : promote(a, part_type(b)));
  return a < b ? b : a;
}

DType promote(DType tensor, Category number, DType default_float) {
  if (number <= category(tensor)) return tensor;
  if (number == Category::kComplex) return complex_type(is_floating(tensor) ? tensor : default_float);
  return number == Category::kInt ? DType::kInt64 : default_float;
}

}  // namespace smolder
