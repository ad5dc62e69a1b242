#include "smolder/autograd/row_products.h"

#include "smolder/core/counters.h"
#include "smolder/lazy/ops.h"  // generated

namespace smolder::autograd {

Tensor RowProduct::tensor() const { return matmul(transpose(left, -1, -2), right); }

bool RowProduct::is_small() const {
  const int64_t rows = left.size(0), m = left.size(1), n = right.size(1);
  return rows * (m + n) <= m * n;
}

Tensor sum_of(std::span<const RowProduct> products) {
  if (products.size() == 1) return products[0].tensor();
  static Counter& joined = counter("autograd.joined_products");
  joined.add(static_cast<int64_t>(products.size()));
  std::vector<Tensor> left, right;
  for (const RowProduct& p : products) {
    left.push_back(p.left);
    right.push_back(p.right);
  }
  return RowProduct{cat(left, 0), cat(right, 0)}.tensor();
}

}  // namespace smolder::autograd
