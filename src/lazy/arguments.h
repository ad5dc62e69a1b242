// Argument types of the generated op functions that the standard library has no good type for.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "smolder/core/dims.h"

namespace smolder {

class Tensor;

/// Axes of a reduction: one, several, or none, which means all. `sum(x)`, `sum(x, 1)`, `sum(x, {0, -1})`.
class Axes {
 public:
  Axes() = default;
  Axes(int axis) : dims_{axis} {}
  Axes(int64_t axis) : dims_{axis} {}
  Axes(std::initializer_list<int64_t> axes) : dims_(axes) {}
  Axes(const Dims& axes) : dims_(axes) {}
  operator const Dims&() const { return dims_; }

 private:
  Dims dims_;
};

/// Several tensors, borrowed for the time of a call: `cat({a, b}, 1)` or a vector.
class TensorList {
 public:
  TensorList(std::initializer_list<Tensor> list) : size_(list.size()) { data_ = list.begin(); }
  TensorList(const std::vector<Tensor>& list) : data_(list.data()), size_(list.size()) {}
  TensorList(std::span<const Tensor> list) : data_(list.data()), size_(list.size()) {}
  const Tensor* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  const Tensor* data_;
  size_t size_;
};

}  // namespace smolder
