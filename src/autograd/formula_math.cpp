// Gradients of elementwise mathematics.
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
  return where(self == 0, 0.0, grad * ((cos(x) * x - sin(x)) / (x * self)));
}

Tensor logaddexp_share(const Tensor& a, const Tensor& b) { return sigmoid(where(a == b, 0.0, a - b)); }

}  // namespace smolder::autograd
