// Arithmetic of sizes: extents, strides and counts that users and files choose. Here alone it is checked for overflow.
#pragma once

#include <cstdint>

#include "smolder/core/dims.h"
#include "smolder/core/dtype.h"

namespace smolder {

/// An integer of 64 bits whose sums, differences and products raise RuntimeError where they do not fit, so that a
/// formula of sizes reads as ever: `(Size(n) + Size(2) * pad).value()`.
class Size {
 public:
  Size(int64_t v) : value_(v) {}
  int64_t value() const { return value_; }
  friend Size operator+(Size a, Size b) { return combine('+', a.value_, b.value_); }
  friend Size operator-(Size a, Size b) { return combine('-', a.value_, b.value_); }
  friend Size operator*(Size a, Size b) { return combine('*', a.value_, b.value_); }

 private:
  static int64_t combine(char op, int64_t a, int64_t b);
  int64_t value_;
};

/// a / b rounded up, of a >= 0 and b > 0: no sum is needed that might not fit.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

/// Bytes of a tensor's elements. Throws RuntimeError in torch's words unless int64 holds them, counting extents of zero
/// as one, as strides do: so any extents of a shape that passed may be multiplied, and with the size of an element.
int64_t storage_bytes(const Dims& shape, DType dtype);

}  // namespace smolder
