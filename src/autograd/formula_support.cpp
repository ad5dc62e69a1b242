#include "smolder/autograd/formula_support.h"

#include <cmath>

#include "smolder/ir/infer.h"

namespace smolder::autograd {

void FormulaContext::set(int i, Tensor g) {
  if (!g.defined()) return;
  if (!(g.shape() == input_shape(i))) g = sum_to_size(g, input_shape(i));
  results[i] = g.to(input_dtype(i));
}

void FormulaContext::set(int i, const MatrixGradient& g) {
  if (g.product.defined() && !products.empty()) {
    products[i] = g.product;
  } else {
    set(i, g.tensor());
  }
}

// -- reductions

Tensor keep_reduced(const Tensor& reduced, const Dims& shape, const Dims& axes, bool keepdim) {
  return keepdim ? reduced : reshape(reduced, ir::reduced_shape("backward", shape, axes, true));
}

Tensor expand_reduced(const Tensor& grad, const Dims& shape, const Dims& axes, bool keepdim) {
  return expand(keep_reduced(grad, shape, axes, keepdim), shape);
}

Scalar reduced_count(const Dims& shape, const Dims& axes) {
  int64_t n = 1;
  for (int64_t a : ir::reduction_axes("backward", axes, shape.size())) n *= shape[static_cast<int>(a)];
  return n;
}

Tensor extreme_grad(const Tensor& grad, const Tensor& self, const Tensor& result, const Dims& axes, bool keepdim) {
  const Tensor kept = keep_reduced(result, self.shape(), axes, keepdim);
  Tensor same = self == kept;
  if (axes.empty()) same = logical_or(same, logical_and(isnan(self), isnan(kept)));  // as torch's max() and median()
  const Tensor hit = same.to(grad.dtype());
  return keep_reduced(grad, self.shape(), axes, keepdim) * hit / sum(hit, axes, true);
}

Tensor select_grad(const Tensor& grad, const Tensor& indices, const Dims& shape, int64_t dim, bool keepdim) {
  const bool kept = keepdim || shape.empty();
  return scatter_add(zeros(shape, grad.dtype()), dim, kept ? indices : unsqueeze(indices, dim),
                     kept ? grad : unsqueeze(grad, dim));
}

Tensor prod_grad(const Tensor& grad, const Tensor& self, const Tensor& result, const Dims& axes, bool keepdim) {
  // With one zero among the factors it alone gets a gradient, the product of the others; with more, none does.
  const Tensor is_zero = self == 0, number = sum(is_zero, axes, true);
  const Tensor others = prod(where(is_zero, 1.0, self), axes, true);
  const Tensor usual = keep_reduced(result, self.shape(), axes, keepdim) / where(is_zero, 1.0, self);
  const Tensor slope = where(number == 0, usual, where(logical_and(number == 1, is_zero), others, 0.0));
  return keep_reduced(grad, self.shape(), axes, keepdim) * slope;
}

Tensor var_grad(const Tensor& grad, const Tensor& self, const Dims& axes, Scalar correction, bool keepdim) {
  const double n = reduced_count(self.shape(), axes).to_double() - correction.to_double();
  return keep_reduced(grad, self.shape(), axes, keepdim) * (self - mean(self, axes, true)) * (2 / n);
}

Tensor norm_grad(const Tensor& grad, const Tensor& self, const Tensor& result, double p, const Dims& axes,
                 bool keepdim) {
  const Tensor g = keep_reduced(grad, self.shape(), axes, keepdim);
  const Tensor r = keep_reduced(result, self.shape(), axes, keepdim);
  if (p == 0) return zeros_like(self);
  if (p == 1) return g * sign(self);
  if (p == 2) return self * where(r == 0, 0.0, g / r);
  if (std::isinf(p)) {
    const Tensor hit = (abs(self) == r).to(grad.dtype());
    return sign(self) * hit * (g / sum(hit, axes, true));
  }
  const Tensor slope = sign(self) * pow(abs(self), p - 1) * (g / pow(r, p - 1));
  return where(logical_or(r == 0, self == 0), 0.0, slope);
}

// -- movement

Dims inverse_permutation(const Dims& axes) {
  Dims out = axes;
  for (int i = 0; i < axes.size(); ++i) out[normalize_axis(axes[i], axes.size())] = i;
  return out;
}

std::vector<Tensor> cat_backward(const Tensor& grad, std::span<const ir::Meta* const> parts, int64_t axis) {
  std::vector<Tensor> out;
  int64_t at = 0;
  for (const ir::Meta* part : parts) {
    const int64_t n = part->shape[normalize_axis(axis, part->shape.size())];
    out.push_back(slice(grad, axis, at, at + n));
    at += n;
  }
  return out;
}

Tensor crop(const Tensor& x, const Dims& low, const Dims& shape) {
  Tensor out = x;
  for (int i = 0; i < shape.size(); ++i) out = slice(out, i, low[i], low[i] + shape[i]);
  return out;
}

Tensor pad_to(const Tensor& x, const Dims& shape) {
  if (x.shape() == shape) return x;
  if (x.numel() == 0) return zeros(shape, x.dtype());  // of an index of nothing, whose other sizes may be larger
  Dims high = shape;
  for (int i = 0; i < shape.size(); ++i) high[i] -= x.shape()[i];
  return constant_pad(x, Dims::filled(shape.size(), 0), high);
}

// -- powers

Tensor pow_grad_base(const Tensor& grad, const Tensor& base, const Tensor& exponent) {
  return where(exponent == 0, 0.0, grad * (exponent * pow(base, exponent - 1)));
}

Tensor pow_grad_base(const Tensor& grad, const Tensor& base, Scalar exponent) {
  if (exponent.to_double() == 0) return zeros_like(grad);
  const Scalar less =
      exponent.category() == Category::kFloat ? Scalar(exponent.to_double() - 1) : exponent.to_int() - 1;
  return grad * (pow(base, less) * exponent);
}

Tensor pow_grad_exponent(const Tensor& grad, const Tensor& base, const Tensor& exponent, const Tensor& result) {
  // 0 to a power is constant, but for negative ones
  return where(logical_and(base == 0, exponent >= 0), 0.0, grad * (result * log(base)));
}

Tensor pow_grad_exponent(const Tensor& grad, Scalar base, const Tensor& exponent, const Tensor& result) {
  const Tensor g = grad * (result * std::log(base.to_double()));
  return base.to_double() == 0 ? where(exponent >= 0, 0.0, g) : g;
}

// -- products

namespace {

/// A matrix of what the last dimension holds. (-1 would say nothing where that is empty.)
Tensor as_rows(const Tensor& x) {
  int64_t rows = 1;
  for (int i = 0; i + 1 < x.dim(); ++i) rows *= x.shape()[i];
  return reshape(x, {rows, x.size(-1)});
}

Tensor matrix_transpose(const Tensor& x) { return transpose(x, -1, -2); }

/// Vectors as torch.matmul sees them: a row on the left, a column on the right.
Tensor as_matrix(const Tensor& x, bool left) { return x.dim() == 1 ? unsqueeze(x, left ? 0 : 1) : x; }

/// The gradient with the axes that vectors lost.
Tensor grad_as_matrix(const Tensor& grad, bool vector_self, bool vector_other) {
  Tensor g = grad;
  if (vector_other) g = unsqueeze(g, -1);
  if (vector_self) g = unsqueeze(g, vector_other ? -2 : g.dim() - 1);
  return g;
}

/// Sums the batch axes that broadcasting spread, then drops the axis of a vector.
Tensor to_operand(const Tensor& g, const Dims& shape, bool left) {
  if (shape.size() > 1) return sum_to_size(g, shape);
  return reshape(sum_to_size(g, left ? Dims{1, shape[0]} : Dims{shape[0], 1}), shape);
}

}  // namespace

Tensor matmul_grad_self(const Tensor& grad, const Dims& shape, const Tensor& other) {
  const Tensor g = grad_as_matrix(grad, shape.size() == 1, other.dim() == 1);
  return to_operand(matmul(g, matrix_transpose(as_matrix(other, false))), shape, true);
}

MatrixGradient matmul_grad_other(const Tensor& grad, const Tensor& self, const Dims& shape) {
  const Tensor g = grad_as_matrix(grad, self.dim() == 1, shape.size() == 1);
  const Tensor a = as_matrix(self, true);
  if (shape.size() <= 2 && (a.dim() > 2 || shape.size() == 2)) {  // one matrix for the whole batch
    const RowProduct flat{a.dim() == 2 ? a : as_rows(a), g.dim() == 2 ? g : as_rows(g)};
    if (shape.size() == 2) return {{}, flat};
    return {reshape(flat.tensor(), shape), {}};
  }
  return {to_operand(matmul(matrix_transpose(a), g), shape, false), {}};
}

Tensor operator*(const MatrixGradient& g, Scalar factor) { return g.tensor() * factor; }

MatrixGradient linear_weight_grad(const Tensor& grad, const Tensor& input) {
  return {{}, {as_rows(grad), as_rows(input)}};
}

}  // namespace smolder::autograd
