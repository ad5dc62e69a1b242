// Gradients of elementwise mathematics, and of Fourier transforms.
#include <limits>

#include "smolder/autograd/formula_support.h"

namespace smolder::autograd {

Tensor copysign_grad(const Tensor& grad, const Tensor& self, const Tensor& result) {
  return where(self == 0, 0.0, grad * (result / self));
}

Tensor logit_grad(const Tensor& grad, const Tensor& self, std::optional<double> eps) {
  const Tensor slope = grad / (self * (1 - self));
  if (!eps) return where(logical_or(self < 0, self > 1), std::numeric_limits<double>::quiet_NaN(), slope);
  return where(logical_or(self < *eps, self > 1 - *eps), 0.0, slope);
}

Tensor sinc_grad(const Tensor& grad, const Tensor& self) {
  const Tensor x = self * 3.14159265358979323846;
  const Tensor square = x * self;  // 0 of small elements too
  return where(square == 0, 0.0, grad * ((cos(x) * x - sin(x)) / square));
}

Tensor logaddexp_share(const Tensor& a, const Tensor& b) { return sigmoid(where(a == b, 0.0, a - b)); }

namespace {

/// `half`, pairs that are half of the spectrum of n real numbers along `axis`, with what has a conjugate in the other
/// half times `factor`: all but the first, and of an even n the last.
Tensor weighted_half(const Tensor& half, int64_t axis, int64_t n, double factor) {
  Dims shape = Dims::filled(half.dim(), 1);
  shape[static_cast<int>(axis)] = half.size(static_cast<int>(axis));
  const Tensor k = reshape(arange(half.size(static_cast<int>(axis))), shape);
  return where(logical_or(k == 0, k * 2 == n), half, half * factor);
}

}  // namespace

Tensor fft_r2c_grad(const Tensor& grad, const Dims& shape, const Dims& dim, int64_t normalization, bool forward) {
  const int64_t n = shape[static_cast<int>(dim.back())];
  return fft_c2r(weighted_half(grad, dim.back(), n, 0.5), dim, normalization, n, !forward);
}

Tensor fft_c2r_grad(const Tensor& grad, const Dims& dim, int64_t normalization, bool forward) {
  const int64_t n = grad.size(static_cast<int>(dim.back()));
  return weighted_half(fft_r2c(grad, dim, normalization, !forward), dim.back(), n, 2);
}

}  // namespace smolder::autograd
