// Argument types of the generated op functions that the standard library has no good type for.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <tuple>

#include "smolder/core/dims.h"

namespace smolder {

class Generator;

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

}  // namespace smolder
