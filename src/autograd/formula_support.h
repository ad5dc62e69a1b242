// Functions that gradient formulas are written with, beside the ops themselves.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "smolder/autograd/formula.h"
#include "smolder/lazy/ops.h"

namespace smolder::autograd {

// -- reductions

/// Spreads the gradient of a reduction over the reduced axes (empty: all).
Tensor expand_reduced(const Tensor& grad, const Dims& shape, const Dims& axes, bool keepdim);
/// A reduction's result (or its gradient) with the reduced axes kept, so that it broadcasts to `shape`.
Tensor keep_reduced(const Tensor& reduced, const Dims& shape, const Dims& axes, bool keepdim);
/// Number of elements reduced into one.
Scalar reduced_count(const Dims& shape, const Dims& axes);

/// Gradient of amax and amin: equal parts to the elements that equal the result.
Tensor extreme_grad(const Tensor& grad, const Tensor& self, const Tensor& result, const Dims& axes, bool keepdim);
/// Gradient of a reduction that picked the elements at `indices` along `dim`.
Tensor select_grad(const Tensor& grad, const Tensor& indices, const Dims& shape, int64_t dim, bool keepdim);
Tensor prod_grad(const Tensor& grad, const Tensor& self, const Tensor& result, const Dims& axes, bool keepdim);
Tensor var_grad(const Tensor& grad, const Tensor& self, const Dims& axes, Scalar correction, bool keepdim);
Tensor norm_grad(const Tensor& grad, const Tensor& self, const Tensor& result, double p, const Dims& axes,
                 bool keepdim);

/// Gradient of a sort along `dim` that put the elements at `indices` in order; they may be the first few.
Tensor sorted_grad(const Tensor& grad, const Tensor& indices, const Dims& shape, int64_t dim);
/// The same for elements that may be picked more than once.
Tensor picked_grad(const Tensor& grad, const Tensor& indices, const Dims& shape, int64_t dim);
Tensor cumprod_grad(const Tensor& grad, const Tensor& self, const Tensor& result, int64_t dim);

// -- writes at indices and masks

std::array<Tensor, 2> scatter_fold_grad(const Tensor& grad, const Tensor& self, int64_t dim, const Tensor& index,
                                        const Tensor& src, std::string_view kind, const Tensor& result);
Tensor masked_rows_grad(const Tensor& grad, const Tensor& mask, const Dims& shape, int64_t dim);

// -- movement

Dims inverse_permutation(const Dims& axes);
/// The pieces of the gradient of cat.
std::vector<Tensor> cat_backward(const Tensor& grad, std::span<const ir::Meta* const> parts, int64_t axis);
/// x[low : low + shape].
Tensor crop(const Tensor& x, const Dims& low, const Dims& shape);
/// Zeros appended to each axis up to `shape`.
Tensor pad_to(const Tensor& x, const Dims& shape);

// -- Fourier transforms of real numbers, of `shape`, and back

Tensor fft_r2c_grad(const Tensor& grad, const Dims& shape, const Dims& dim, int64_t normalization, bool forward);
Tensor fft_c2r_grad(const Tensor& grad, const Dims& dim, int64_t normalization, bool forward);

// -- powers; numbers are what they are outside a trace

inline Tensor squared(const Tensor& x) { return square(x); }
inline Scalar squared(Scalar x) { return x.to_double() * x.to_double(); }
inline Tensor one_minus(const Tensor& x) { return 1 - x; }
inline Scalar one_minus(Scalar x) { return 1 - x.to_double(); }

Tensor pow_grad_base(const Tensor& grad, const Tensor& base, const Tensor& exponent);
Tensor pow_grad_base(const Tensor& grad, const Tensor& base, Scalar exponent);
Tensor pow_grad_exponent(const Tensor& grad, const Tensor& base, const Tensor& exponent, const Tensor& result);
Tensor pow_grad_exponent(const Tensor& grad, Scalar base, const Tensor& exponent, const Tensor& result);

// -- elementwise

/// Gradient of copysign: the sign that it gave to self's magnitude, relative to self's own.
Tensor copysign_grad(const Tensor& grad, const Tensor& self, const Tensor& result);
Tensor logit_grad(const Tensor& grad, const Tensor& self, std::optional<double> eps);
Tensor sinc_grad(const Tensor& grad, const Tensor& self);
/// `x` over the square of the distance of (x, y) from the origin, at which it is 0: what atan2's gradients are made of.
template <class X, class Y>
Tensor over_square(const X& x, const Y& y) {
  const Tensor square = squared(x) + squared(y);
  return where(square == 0, 0.0, x / square);
}
/// exp(a) / (exp(a) + exp(b)); one half where both are the same infinity.
Tensor logaddexp_share(const Tensor& a, const Tensor& b);

// -- bounds, as torch: self has the gradient where it is at one, and within them; nan is neither

Tensor clamp_min_grad_self(const Tensor& grad, const Tensor& self, const auto& min) {
  return where(self >= min, grad, 0.0);
}
Tensor clamp_max_grad_self(const Tensor& grad, const Tensor& self, const auto& max) {
  return where(self <= max, grad, 0.0);
}
template <class Min, class Max>
Tensor clamp_grad_self(const Tensor& grad, const Tensor& self, const Min& min, const Max& max) {
  return where(logical_and(self >= min, self <= max), grad, 0.0);
}
Tensor clamp_grad_min(const Tensor& grad, const Tensor& self, const Tensor& min, const auto& max) {
  return where(logical_and(self < min, min < max), grad, 0.0);
}
Tensor clamp_grad_max(const Tensor& grad, const Tensor& self, const auto& min, const Tensor& max) {
  return where(logical_or(self > max, max < min), grad, 0.0);
}

// -- products

/// Gradients of matmul's operands; `shape` is that of the operand.
Tensor matmul_grad_self(const Tensor& grad, const Dims& shape, const Tensor& other);
MatrixGradient matmul_grad_other(const Tensor& grad, const Tensor& self, const Dims& shape);
Tensor operator*(const MatrixGradient& g, Scalar factor);
/// Gradient of linear's weight: grad.T @ input over all leading dimensions.
MatrixGradient linear_weight_grad(const Tensor& grad, const Tensor& input);

// -- activations, layers and losses

/// Second derivative of gelu.
Tensor gelu_curvature(const Tensor& x, std::string_view approximate);
/// d * inner where |d| is below bound, else outer with the sign of d.
Tensor smooth_slope(const Tensor& d, Scalar bound, Scalar inner, Scalar outer);
/// `grad` times the number that a loss's reduction multiplies the derivative of each element by.
Tensor loss_scale(const Tensor& grad, double factor, std::string_view reduction, const Dims& a, const Dims& b);
Tensor bce_target_grad(const Tensor& grad, const Tensor& self, const Tensor& weight, const Tensor& pos_weight,
                       std::string_view reduction);
Tensor bce_logits_grad(const Tensor& grad, const Tensor& self, const Tensor& target, const Tensor& weight,
                       const Tensor& pos_weight, std::string_view reduction);
/// Gradient of a max pool whose elements are at `indices` of the planes of `shape`.
Tensor max_pool_grad(const Tensor& grad, const Tensor& indices, const Dims& shape);
/// Gradient of nll_loss_backward with respect to its grad_output; `grad` has the shape of the input.
Tensor nll_loss_grad(const Tensor& grad, const Tensor& target, const Tensor& weight, const Tensor& total,
                     int64_t ignore_index, std::string_view reduction);

// The same gradients as the whole ops compute, composed of ops that can be differentiated again: used
// when a graph of the gradient is asked for.
Tensor cross_entropy_grad(const Tensor& grad, const Tensor& self, const Tensor& target, const Tensor& weight,
                          const Tensor& total, int64_t ignore_index, std::string_view reduction,
                          double label_smoothing);
std::array<Tensor, 3> layer_norm_grad(const Tensor& grad, const Tensor& self, const Tensor& weight,
                                      const Dims& normalized_shape, Scalar eps);
std::array<Tensor, 3> batch_norm_grad(const Tensor& grad, const Tensor& self, const Tensor& weight, Scalar eps);
std::array<Tensor, 4> attention_grad(const Tensor& grad, const Tensor& query, const Tensor& key, const Tensor& value,
                                     const Tensor& mask, Scalar scale, bool is_causal);

}  // namespace smolder::autograd
