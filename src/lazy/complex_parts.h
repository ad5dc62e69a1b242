// The real and imaginary parts of complex tensors, and what follows from both: see complex.h.
#pragma once

#include <utility>

#include "smolder/lazy/tensor.h"

namespace smolder::lazy {

/// The shape of the parts of a complex tensor of shape `shape`.
inline Dims with_pairs(Dims shape) {
  shape.push_back(2);
  return shape;
}
/// Throws torch's RuntimeError where parts do not lie beside each other as those of complex numbers do.
void check_pairs(const Tensor& t);
/// The parts of a complex tensor as views of it; of a real one itself, and an undefined tensor.
std::pair<Tensor, Tensor> parts_of(const Tensor& t);
/// A complex tensor of two real ones that broadcast.
Tensor complex_of(const Tensor& re, const Tensor& im);
/// sqrt(x^2 + y^2), whose gradient at 0 is 0.
Tensor safe_hypot(const Tensor& x, const Tensor& y);

/// Magnitudes; the gradient at 0 is 0.
Tensor magnitude(const Tensor& t);
/// Angles in (-pi, pi]; the gradient at 0 is 0.
Tensor argument(const Tensor& t);

}  // namespace smolder::lazy
