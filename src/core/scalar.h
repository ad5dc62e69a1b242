// A Python number as the recorder sees it: eight bytes and the category that promotion needs.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "smolder/core/dtype.h"
#include "smolder/core/error.h"

namespace smolder {

/// A bool, int or float with its category. Value semantics, 16 bytes.
class Scalar {
 public:
  Scalar(bool v) : bits_(v), category_(Category::kBool) {}
  Scalar(int v) : Scalar(static_cast<int64_t>(v)) {}
  Scalar(int64_t v) : bits_(static_cast<uint64_t>(v)), category_(Category::kInt) {}
  Scalar(double v) : bits_(std::bit_cast<uint64_t>(v)), category_(Category::kFloat) {}
  Scalar(float v) : Scalar(static_cast<double>(v)) {}
  static Scalar from_bits(uint64_t bits, Category c) {
    Scalar s(false);
    s.bits_ = bits;
    s.category_ = c;
    return s;
  }

  Category category() const { return category_; }
  /// The eight bytes as a parameter slot holds them: int64 for bool and int, double for float.
  uint64_t bits() const { return bits_; }
  double to_double() const {
    return category_ == Category::kFloat ? std::bit_cast<double>(bits_)
                                         : static_cast<double>(static_cast<int64_t>(bits_));
  }
  /// Truncates toward zero, as a cast does.
  int64_t to_int() const {
    return category_ == Category::kFloat ? static_cast<int64_t>(std::bit_cast<double>(bits_))
                                         : static_cast<int64_t>(bits_);
  }
  bool to_bool() const { return category_ == Category::kFloat ? to_double() != 0 : bits_ != 0; }
  /// As a T: an integer of C++ loses what is behind the point. Throws RuntimeError where a T does not hold it.
  template <class T>
  T to() const {
    static_assert(std::is_arithmetic_v<T>, "a number is converted to a number");
    if constexpr (std::is_same_v<T, bool>) {
      return to_bool();
    } else {
      const bool fits = category_ == Category::kFloat ? holds<T>(to_double()) : holds<T>(to_int());
      SMOLDER_CHECK(fits, RuntimeError, "value cannot be converted to a type of ", sizeof(T),
                    " bytes without overflow");
      return category_ == Category::kFloat ? static_cast<T>(to_double()) : static_cast<T>(to_int());
    }
  }
  /// The type a zero-dim tensor of this number has.
  DType dtype(DType default_float = DType::kFloat32) const {
    return category_ == Category::kBool ? DType::kBool : category_ == Category::kInt ? DType::kInt64 : default_float;
  }

  friend bool operator==(const Scalar&, const Scalar&) = default;

 private:
  template <class T>
  static bool holds(double v) {
    using Limits = std::numeric_limits<T>;
    if constexpr (std::is_floating_point_v<T>) return !std::isfinite(v) || std::abs(v) <= Limits::max();
    // Both are powers of two, or zero: exact, as the largest integers are not.
    return std::trunc(v) >= static_cast<double>(Limits::min()) && v < std::ldexp(1.0, Limits::digits);
  }
  template <class T>
  static bool holds(int64_t v) {
    if constexpr (std::is_floating_point_v<T>) {
      return true;
    } else {
      return std::in_range<T>(v);
    }
  }

  uint64_t bits_;
  Category category_;
};

}  // namespace smolder
