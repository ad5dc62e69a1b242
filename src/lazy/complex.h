// Complex numbers, which graphs and kernels do not know: a complex tensor is a real one whose last dimension has the
// real and the imaginary part.
//
// The two are views of one another (view_as_real, view_as_complex), and the only ops on complex tensors that a trace
// has. Any other op on them is recorded as what it is in real numbers, by the rules of complex.cpp. So gradients, vmap,
// fusion and both generators hold for complex numbers as they do for real ones. The gradient of a real loss is d/dre +
// i d/dim, which is torch's convention.
#pragma once

#include "smolder/lazy/complex_access.h"
#include "smolder/lazy/complex_parts.h"
#include "smolder/lazy/record.h"
#include "smolder/lazy/tensor.h"

namespace smolder::lazy {

/// Python's complex numbers as operands: without dimensions, and without effect on the precision of a result.
Tensor complex_number(double re, double im);

/// A real tensor as a complex one; a complex one in another precision.
Tensor to_complex(const Tensor& t, DType dtype);
/// A complex tensor as a real one, without its imaginary part, which torch warns of.
Tensor to_real(const Tensor& t, DType dtype);

Tensor conjugate(const Tensor& t);

}  // namespace smolder::lazy
