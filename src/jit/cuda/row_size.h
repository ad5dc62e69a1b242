// For what rows a kernel is made, whose threads share these out. It takes others, too.
#pragma once

#include <cstdint>
#include <span>

#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit::cuda {

/// The best `Kernel::row`, where `ints` are what is expected.
RowSize row_size(const Kernel& kernel, std::span<const int64_t> ints);
/// The extent of these rows; the constant 0 where a kernel is made for none.
IntRef row_extent(const Kernel& kernel);

/// Lengths beyond `first`, up to `last`, for which a kernel made for `extent`, as `row` says, does.
struct RowRange {
  int64_t first, last;
  bool operator==(const RowRange&) const = default;
};
RowRange row_range(int64_t extent, const RowSize& row);

}  // namespace smolder::jit::cuda
