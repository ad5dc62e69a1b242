// Tensors of which some elements are kept and the others are zero. Ops know none: such a tensor is a handle of its
// values alone, marked with where they are, which the layers above take apart. The engine of gradients passes marked
// handles on, as those of embeddings whose gradient is of the rows that were looked up.
#pragma once

#include <memory>
#include <vector>

#include "smolder/lazy/tensor.h"

namespace smolder::autograd {

enum class SparseLayout : uint8_t { kCoo, kCsr, kCsc };

/// Where the values are. Immutable, and shared by handles.
struct SparseParts {
  SparseLayout layout = SparseLayout::kCoo;
  std::vector<Tensor>
      indices;  ///< COO: one of (sparse dimensions, values); else where rows or columns begin, and the other's
  Dims shape;   ///< of the whole tensor
  bool coalesced = false;  ///< COO: in order and each place once
};

/// Where the values are that `values` is marked with; null where it is a tensor as any other.
std::shared_ptr<const SparseParts> sparse_parts(const Tensor& values);
/// Marks a handle that nobody takes for a tensor of its own.
void mark_sparse(const Tensor& values, std::shared_ptr<const SparseParts> parts);
/// The shape of a gradient, of all of it where few elements are kept.
const Dims& whole_shape(const Tensor& t);
/// The sum of two gradients. Of two COO ones it has the elements of both; with one that has all elements, all. Throws
/// NotImplementedError for other layouts.
Tensor add_gradients(const Tensor& a, const Tensor& b);

}  // namespace smolder::autograd
