// Gradients of sorts, running reductions, and writes at indices and masks.
#include "smolder/autograd/formula_support.h"

namespace smolder::autograd {

Tensor picked_grad(const Tensor& grad, const Tensor& indices, const Dims& shape, int64_t dim) {
  if (shape.empty()) return grad;
  return scatter_add(zeros(shape, grad.dtype()), dim, indices, grad);
}

Tensor sorted_grad(const Tensor& grad, const Tensor& indices, const Dims& shape, int64_t dim) {
  if (shape.empty()) return grad;
  return scatter(zeros(shape, grad.dtype()), dim, indices, grad);
}

/// Before the first zero, sums of what follows over the element; at it, products that leave it out; nothing after.
Tensor cumprod_grad(const Tensor& grad, const Tensor& self, const Tensor& result, int64_t dim) {
  if (self.dim() == 0) return grad;
  const auto following = [&](const Tensor& x) { return flip(cumsum(flip(x, {dim}), dim), {dim}); };
  const Tensor zero = self == 0, zeros_so_far = cumsum(zero, dim);
  const Tensor before = zeros_so_far == 0, first = logical_and(zero, zeros_so_far == 1);
  const Tensor usual = following(grad * result) / where(before, self, 1.0);
  const Tensor without = cumprod(where(first, 1.0, self), dim);
  const Tensor at_first = following(where(before, 0.0, grad * without));
  return where(before, usual, where(first, at_first, 0.0));
}

std::array<Tensor, 2> scatter_fold_grad(const Tensor& grad, const Tensor& self, int64_t dim, const Tensor& index,
                                        const Tensor& src, std::string_view kind, const Tensor& result) {
  const auto at_index = [&](const Tensor& x) { return gather(x, dim, index); };
  const Dims& covered = index.shape();
  const Tensor used = src.shape() == covered ? src : crop(src, Dims::filled(covered.size(), 0), covered);
  if (kind != "prod") {
    const Tensor from_self = (self == result).to(grad.dtype());
    const Tensor from_src = (used == at_index(result)).to(grad.dtype());
    const Tensor each = grad / scatter_add(from_self, dim, index, from_src);
    return {from_self * each, pad_to(at_index(each) * from_src, src.shape())};
  }
  // A zero takes the product of all others: where there is one, it is worked out with the zero left out.
  const Tensor plain = masked_fill(self, self == 0, 1);
  const Tensor grad_self = grad * scatter_fold(plain, dim, index, src, "prod") / plain;
  const Tensor zero = used == 0;
  const Tensor zeros_there = scatter_add(zeros_like(self), dim, index, zero.to(self.dtype()));
  const Tensor alone = logical_and(zero, at_index(zeros_there) == 1);
  const Tensor others = at_index(scatter_fold(self, dim, index, masked_fill(used, alone, 1), "prod"));
  const Tensor usual = at_index(grad * result) / masked_fill(used, zero, 1);
  return {grad_self, pad_to(where(alone, at_index(grad) * others, usual), src.shape())};
}

Tensor masked_rows_grad(const Tensor& grad, const Tensor& mask, const Dims& shape, int64_t dim) {
  const Tensor flat = reshape(mask, {-1});
  const int axis = normalize_axis(dim, shape.size());
  Dims rows = shape;
  rows[axis] = mask.numel();
  const Tensor at = where(flat, cumsum(flat, 0) - 1, 0);
  return index_add(zeros(shape, grad.dtype()), axis, at, reshape(grad, rows));
}

}  // namespace smolder::autograd
