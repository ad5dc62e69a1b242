// Tensors in memory for tests: drawn at random, laid out in every way strides allow, compared with the oracle.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "smolder/eager/array.h"
#include "smolder/ir/interpret.h"

namespace smolder::eager {

/// How a tensor lies in memory.
enum class Layout { kContiguous, kTransposed, kReversed, kSpaced, kOffset };
inline constexpr Layout kLayouts[] = {Layout::kContiguous, Layout::kTransposed, Layout::kReversed, Layout::kSpaced,
                                      Layout::kOffset};
std::string name(Layout l);

/// Memory for a tensor laid out so; what lies between its elements is filled with a pattern.
Array make_array(const Dims& shape, DType dtype, Layout layout);
/// A tensor with the given elements; a number when `t` is weak.
Array to_array(const ir::PlainTensor& t, Layout layout = Layout::kContiguous);
/// The elements of `a` in row-major order.
ir::PlainTensor to_plain(const Array& a);

/// Where elements are drawn from.
struct Domain {
  double low = -8, high = 8;
  /// One in five is drawn from zeros of both signs, infinities, nan, extremes and denormals (of integers: extremes).
  bool special = true;
};
ir::PlainTensor random_tensor(std::mt19937& random, const Dims& shape, DType dtype, Domain domain = {});
ir::PlainTensor weak_number(Scalar v);

/// Steps between two floats of `dtype` in the order of their bits; 0 for nan and nan. Zeros of different sign are
/// one step apart.
int64_t ulps_apart(double a, double b, DType dtype);
/// Equal shape and dtype, and every element within `ulps` (of floats; integers are equal).
testing::AssertionResult same(const ir::PlainTensor& actual, const ir::PlainTensor& expected, int64_t ulps = 0);
/// Every element within `absolute`, or nan where nan is expected.
testing::AssertionResult near(const ir::PlainTensor& actual, const ir::PlainTensor& expected, double absolute);

}  // namespace smolder::eager
