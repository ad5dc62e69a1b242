// Views that are no op's: windows of a dimension, and diagonals that no vector is a view of. They are recorded as
// indexing, and a write through one as what puts its elements back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "smolder/ir/op.h"

namespace smolder {
class Tensor;
}

namespace smolder::lazy {

/// The op of a ViewStep that is such a view; its attributes say which.
constexpr ir::Op kTaken = ir::Op::kIndexSelect;

/// Windows of `size` elements of `axis`, `step` apart, as a last dimension.
std::vector<int64_t> windows_taken(int axis, int64_t size, int64_t step);
/// Diagonals of square matrices.
std::vector<int64_t> diagonal_taken();

/// The shape of matrices with each as a vector.
Dims flattened(const Dims& shape);

/// The elements, as ops.
Tensor take(const Tensor& x, std::span<const int64_t> attrs);
/// x with others in their place; an element of several windows has what the last of those has that were changed.
Tensor put_taken(const Tensor& x, const Tensor& taken, std::span<const int64_t> attrs);
/// Whether an element may be at several places of the view.
bool repeats_elements(std::span<const int64_t> attrs);
Dims shape_taken(const Dims& shape, std::span<const int64_t> attrs);
Dims strides_taken(const Dims& strides, std::span<const int64_t> attrs);
/// The elements as a view of x (view.cpp).
Tensor taken_view(const Tensor& x, const std::vector<int64_t>& attrs);

}  // namespace smolder::lazy
