// Tensors of numbers that a program has at hand, and what it names their dtypes by.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <type_traits>
#include <vector>

#include "smolder/lazy/record.h"
#include "smolder/lazy/tensor.h"

namespace smolder {

using enum DType;  // kFloat32, kInt64 and the others, as torch's

template <class T>
concept Number = std::is_arithmetic_v<T>;

/// A tensor of one axis with these elements: bool of bools, int64 of integers, float32 of other numbers, or of `dtype`.
/// As torch::tensor.
template <Number T>
Tensor tensor(const std::vector<T>& values, std::optional<DType> dtype = {}) {
  constexpr bool floats = std::is_floating_point_v<T>, bools = std::is_same_v<T, bool>;
  using Kept = std::conditional_t<floats, double, std::conditional_t<bools, uint8_t, int64_t>>;
  const std::vector<Kept> kept(values.begin(), values.end());
  const Tensor made = Tensor::from_data(kept.data(), {static_cast<int64_t>(kept.size())},
                                        floats  ? kFloat64
                                        : bools ? kBool
                                                : kInt64);
  return made.to(dtype.value_or(floats ? kFloat32 : made.dtype()));
}
template <Number T>
Tensor tensor(std::initializer_list<T> values, std::optional<DType> dtype = {}) {
  return tensor(std::vector<T>(values), dtype);
}
/// The same of two axes. Throws ValueError where rows differ in length.
template <Number T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows, std::optional<DType> dtype = {}) {
  std::vector<T> values;
  const size_t columns = rows.size() ? rows.begin()->size() : 0;
  for (const auto& row : rows) {
    SMOLDER_CHECK(row.size() == columns, ValueError, "expected rows of ", columns, " numbers, got one of ", row.size());
    values.insert(values.end(), row);
  }
  return tensor(values, dtype).view({static_cast<int64_t>(rows.size()), static_cast<int64_t>(columns)});
}
/// One number, without axes.
template <Number T>
Tensor tensor(T value, std::optional<DType> dtype = {}) {
  return tensor(std::vector<T>{value}, dtype).view({});
}

/// While one lives, this thread records no history for gradients.
class NoGradGuard {
 private:
  lazy::GradMode off_{false};
};

}  // namespace smolder
