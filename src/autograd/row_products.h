// Gradients of matrices that are products, as those of a weight: the sum of many small ones is one product.
#pragma once

#include <span>
#include <vector>

#include "smolder/lazy/tensor.h"

namespace smolder::autograd {

/// left.T @ right, of matrices with as many rows: a gradient that nobody computed yet.
struct RowProduct {
  Tensor left, right;

  bool defined() const { return left.defined(); }
  Tensor tensor() const;
  /// The transpose of it.
  RowProduct transposed() const { return {right, left}; }
  /// Whether it costs less to keep its operands, and read them once more, than to store what it comes to and add that
  /// up.
  bool is_small() const;
};

/// Result of the formula of a matrix's gradient: a product, or, where it is none, the gradient.
struct MatrixGradient {
  Tensor value;
  RowProduct product;

  Tensor tensor() const { return product.defined() ? product.tensor() : value; }
};

/// The sum of products of one shape: the product of all their rows, those of the first on top.
Tensor sum_of(std::span<const RowProduct> products);

}  // namespace smolder::autograd
