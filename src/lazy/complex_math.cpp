#include "smolder/lazy/complex_math.h"

#include <cmath>
#include <complex>
#include <numbers>
#include <utility>

#include "smolder/lazy/ops.h"  // generated

namespace smolder::lazy {

Operand Part::operand(Tensor& kept) const {
  if (number_) return Operand(Scalar(*number_));
  kept = tensor_;
  return Operand(kept);
}

namespace {

/// The two doubles of a number of Python's.
std::pair<double, double> read_number(const Operand& o) {
  const auto* const parts = static_cast<const double*>(o.impl()->value->data());
  return {parts[0], parts[1]};
}

template <class Numbers, class Tensors>
Part combined(const Part& a, const Part& b, Numbers numbers, Tensors tensors) {
  if (a.is_number() && b.is_number()) return Part(numbers(a.number(), b.number()));
  Tensor kept[2];
  return Part(tensors(a.operand(kept[0]), b.operand(kept[1])));
}

Part negated(const Part& a) { return a.is_nothing() ? a : a.is_number() ? Part(-a.number()) : Part(-a.tensor()); }

Part operator+(const Part& a, const Part& b) {
  if (a.is_nothing()) return b;
  if (b.is_nothing()) return a;
  return combined(a, b, [](double x, double y) { return x + y; }, [](Operand x, Operand y) { return add(x, y); });
}

Part operator-(const Part& a, const Part& b) {
  if (b.is_nothing()) return a;
  if (a.is_nothing()) return negated(b);
  return combined(a, b, [](double x, double y) { return x - y; }, [](Operand x, Operand y) { return sub(x, y); });
}

Part operator*(const Part& a, const Part& b) {
  if (a.is_nothing() || b.is_nothing()) return {};
  return combined(a, b, [](double x, double y) { return x * y; }, [](Operand x, Operand y) { return mul(x, y); });
}

Part operator/(const Part& a, const Part& b) {
  if (a.is_nothing()) return a;
  return combined(a, b, [](double x, double y) { return x / y; }, [](Operand x, Operand y) { return div(x, y); });
}

/// The larger magnitude, which no gradient flows through.
Part larger(const Part& a, const Part& b) {
  if (a.is_number() && b.is_number()) return Part(std::max(std::abs(a.number()), std::abs(b.number())));
  Tensor kept[2];
  const auto size = [](const Part& p) {
    return p.is_number() ? Part(std::abs(p.number())) : Part(abs(p.tensor().detach()));
  };
  const Part x = size(a), y = size(b);
  return Part(maximum(x.operand(kept[0]), y.operand(kept[1])));
}

Complex product(const Complex& a, const Complex& b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

/// A part of a divisor over the larger of the two. That is 0 or infinite where there is no such number: then the
/// divisor is as its direction times the scale, so that 1 / 0 is infinite and 1 / inf is 0. Zero has `of_zero` for
/// direction.
Part scaled(const Part& part, const Part& scale, double of_zero) {
  if (part.is_number() && scale.is_number()) {
    const double p = part.number(), s = scale.number();
    if (s == 0) return Part(of_zero);
    return Part(!std::isinf(s) ? p / s : std::isinf(p) ? std::copysign(1.0, p) : 0.0);
  }
  const Tensor& s = scale.tensor();
  const Tensor p = part.is_number() ? full_like(s, Scalar(part.number())) : part.tensor();
  const Tensor zero = eq(s, Scalar(0.0)), odd = logical_or(zero, isinf(s));
  const Tensor direction = where(isinf(p), Operand(sign(p)), Operand(Scalar(0.0)));
  const Tensor of_odd = where(zero, Operand(Scalar(of_zero)), Operand(direction));
  return Part(where(odd, of_odd, p / where(odd, Operand(Scalar(1.0)), Operand(s))));
}

/// Both are divided by the larger part of the divisor first, so that squares neither overflow nor vanish.
Complex quotient(const Complex& a, const Complex& b) {
  if (!b.is_complex()) return {a.re / b.re, a.im / b.re};
  const Part scale = larger(b.re, b.im);
  const Part c = scaled(b.re, scale, 1.0), d = scaled(b.im, scale, 0.0);
  const Part size = (c * c + d * d) * scale;
  return {(a.re * c + a.im * d) / size, (a.im * c - a.re * d) / size};
}

Complex exponential(const Complex& z) {
  const Tensor size = exp(z.re.tensor());
  return {size * cos(z.im.tensor()), size * sin(z.im.tensor())};
}

Tensor packed(const Complex& z, DType dtype) {
  const Part re = z.re.to(part_type(dtype));
  const Part im = z.im.is_nothing() ? Part(zeros_like(re.tensor())) : z.im.to(part_type(dtype));
  return complex_of(re.tensor(), im.tensor());
}

Tensor packed(const Complex& z) { return packed(z, complex_type(z.re.tensor().dtype())); }

/// Logarithm of the magnitude, and the angle.
Complex logarithm(const Complex& z) {
  const Tensor whole = packed(z), size = magnitude(whole);
  const Tensor zero = eq(size.detach(), Scalar(0.0));
  const Operand one(Scalar(1.0));
  // At 0 the gradient is infinite, which that of a magnitude hides.
  const Tensor at_zero = log(where(zero, Operand(parts_of(whole).first), one));
  return {where(zero, Operand(at_zero), Operand(log(where(zero, one, Operand(size))))), argument(whole)};
}

/// The principal root: Kahan's way, exact on both axes.
Complex square_root(const Complex& z) {
  const Tensor re = z.re.tensor(), im = z.im.tensor();
  const Tensor root = sqrt(safe_hypot(re, im) * Scalar(0.5) + abs(re) * Scalar(0.5));  // whose sum may overflow
  const Tensor zero = eq(root.detach(), Scalar(0.0));
  const Tensor divisor = where(zero, Operand(Scalar(1.0)), Operand(root)) * Scalar(2.0);
  const Tensor right = re >= Scalar(0.0);
  // The magnitude of `im`, with a slope on the cut too, where the sign of a zero says on which side.
  const Tensor size = im * copysign(ones_like(im), im.detach()).detach();
  return {where(right, Operand(root), Operand(size / divisor)),
          where(right, Operand(im / divisor), Operand(copysign(root, im)))};
}

Complex sine(const Complex& z) {
  const Tensor a = z.re.tensor(), b = z.im.tensor();
  return {sin(a) * cosh(b), cos(a) * sinh(b)};
}
Complex cosine(const Complex& z) {
  const Tensor a = z.re.tensor(), b = z.im.tensor();
  return {cos(a) * cosh(b), -(sin(a) * sinh(b))};
}
Complex hyperbolic_sine(const Complex& z) {
  const Tensor a = z.re.tensor(), b = z.im.tensor();
  return {sinh(a) * cos(b), cosh(a) * sin(b)};
}
Complex hyperbolic_cosine(const Complex& z) {
  const Tensor a = z.re.tensor(), b = z.im.tensor();
  return {cosh(a) * cos(b), sinh(a) * sin(b)};
}
/// exp(z) - 1, accurate near 0.
Complex exponential_less_one(const Complex& z) {
  const Tensor a = z.re.tensor(), b = z.im.tensor();
  const Tensor half = sin(b * Scalar(0.5));
  return {expm1(a) * cos(b) - half * half * Scalar(2.0), exp(a) * sin(b)};
}
/// log(1 + z), accurate near 0.
Complex logarithm_of_one_more(const Complex& z) {
  const Tensor a = z.re.tensor(), b = z.im.tensor();
  const Complex more{a + Scalar(1.0), b};
  const Tensor near = lt(safe_hypot(a, b).detach(), Scalar(0.5));
  // The formulas for one place are kept from infinities at the other, whose gradients would be nan.
  const Tensor x = where(near, Operand(a), Operand(Scalar(0.0))), y = where(near, Operand(b), Operand(Scalar(0.0)));
  const Tensor small = log1p(x * (x + Scalar(2.0)) + y * y) * Scalar(0.5);
  const Complex far = logarithm(more);
  return {where(near, Operand(small), Operand(far.re.tensor())), far.im};
}
/// In tangents of the parts, which do not overflow.
Complex hyperbolic_tangent(const Complex& z) {
  const Tensor t = tanh(z.re.tensor()), u = tan(z.im.tensor());
  const Tensor size = (t * t) * (u * u) + Scalar(1.0);
  return {t * (u * u + Scalar(1.0)) / size, u * (Scalar(1.0) - t * t) / size};
}
// Inverse functions by Kahan's formulas (Branch cuts for complex elementary functions, 1987), which hold on both sides
// of the cuts, where the sign of a zero says which side is meant.

Complex times_i(const Complex& z) { return {negated(z.im), z.re}; }
Complex over_i(const Complex& z) { return {z.im, negated(z.re)}; }

Complex less_than_one(const Complex& z) { return {Part(1.0) - z.re, negated(z.im)}; }
Complex one_more(const Complex& z) { return {z.re + Part(1.0), z.im}; }
Complex one_less(const Complex& z) { return {z.re - Part(1.0), z.im}; }

/// The imaginary part of conj(a) b, the real one, and that of a b.
Tensor cross(const Complex& a, const Complex& b) {
  return a.re.tensor() * b.im.tensor() - a.im.tensor() * b.re.tensor();
}
Tensor dot(const Complex& a, const Complex& b) { return a.re.tensor() * b.re.tensor() + a.im.tensor() * b.im.tensor(); }
Tensor real_product(const Complex& a, const Complex& b) {
  return a.re.tensor() * b.re.tensor() - a.im.tensor() * b.im.tensor();
}

Complex inverse_sine(const Complex& z) {
  const Complex less = square_root(less_than_one(z)), more = square_root(one_more(z));
  return {atan2(z.re.tensor(), real_product(less, more)), asinh(cross(less, more))};
}
Complex inverse_cosine(const Complex& z) {
  const Complex less = square_root(less_than_one(z)), more = square_root(one_more(z));
  return {atan2(less.re.tensor(), more.re.tensor()) * Scalar(2.0), asinh(cross(more, less))};
}
Complex inverse_hyperbolic_cosine(const Complex& z) {
  const Complex less = square_root(one_less(z)), more = square_root(one_more(z));
  return {asinh(dot(less, more)), atan2(less.im.tensor(), more.re.tensor()) * Scalar(2.0)};
}
Complex inverse_hyperbolic_tangent(const Complex& z) {
  const Tensor a = z.re.tensor(), b = z.im.tensor(), less = Scalar(1.0) - a, more = a + Scalar(1.0);
  const Tensor size = less * less + b * b;
  return {log1p(a * Scalar(4.0) / size) * Scalar(0.25), atan2(b * Scalar(2.0), less * more - b * b) * Scalar(0.5)};
}
Complex inverse_hyperbolic_sine(const Complex& z) { return over_i(inverse_sine(times_i(z))); }
Complex inverse_tangent(const Complex& z) { return over_i(inverse_hyperbolic_tangent(times_i(z))); }

/// z / |z|, and 0 at 0.
Complex sign_of(const Complex& z) {
  const Tensor size = safe_hypot(z.re.tensor(), z.im.tensor());
  const Tensor zero = eq(size.detach(), Scalar(0.0));
  const Tensor divisor = where(zero, Operand(Scalar(1.0)), Operand(size));
  const auto part = [&](const Tensor& x) { return where(zero, Operand(x.detach()), Operand(x / divisor)); };
  return {part(z.re.tensor()), part(z.im.tensor())};
}

Complex logistic(const Complex& z) {
  const Complex e = exponential({negated(z.re), negated(z.im)});
  return quotient({Part(1.0), Part()}, Complex{e.re + Part(1.0), e.im});
}

/// sin(pi z) / (pi z), and 1 at 0.
Complex cardinal_sine(const Complex& z) {
  const Complex x{z.re * Part(std::numbers::pi), z.im * Part(std::numbers::pi)};
  const Tensor zero = logical_and(eq(x.re.tensor(), Scalar(0.0)), eq(x.im.tensor(), Scalar(0.0)));
  const Complex there{where(zero, Operand(Scalar(1.0)), Operand(x.re.tensor())), x.im};
  const Complex made = quotient(sine(there), there);
  return {where(zero, Operand(Scalar(1.0)), Operand(made.re.tensor())),
          where(zero, Operand(Scalar(0.0)), Operand(made.im.tensor()))};
}

/// A real power: by products for small whole ones, else of the magnitude and the angle.
Complex real_power(const Complex& z, double p) {
  if (p == 0.5) return square_root(z);
  if (p == std::trunc(p) && std::abs(p) <= 4 && p != 0) {
    Complex out = z;
    for (int i = 1; i < static_cast<int>(std::abs(p)); ++i) out = product(out, z);
    return p > 0 ? out : quotient({Part(1.0), Part()}, out);
  }
  const Tensor whole = packed(z);
  const Tensor size = pow(magnitude(whole), Scalar(p)), turned = argument(whole) * Scalar(p);
  return {size * cos(turned), size * sin(turned)};
}

/// exp(b log a). Where a is 0, which has no logarithm: 1 to the power 0, and 0 where b's real part is positive.
Complex power(const Complex& a, const Complex& b, DType dtype) {
  if (!b.is_complex() && b.re.is_number()) return real_power(a, b.re.number());
  const auto number = [](const Part& part) { return part.is_number() ? part.number() : 0.0; };
  const bool known_base = a.re.is_number(), from_zero = known_base && number(a.re) == 0 && number(a.im) == 0;
  if (known_base && !from_zero) {
    const std::complex<double> l = std::log(std::complex<double>(number(a.re), number(a.im)));
    return exponential(product({Part(l.real()), Part(l.imag())}, b));
  }
  if (from_zero) {
    const Part zeros(zeros_like(b.re.is_number() ? b.im.tensor() : b.re.tensor()));
    return power({zeros, zeros}, b, dtype);
  }
  const Complex whole{a.re, a.is_complex() ? a.im : Part(zeros_like(a.re.tensor()))};
  const Tensor z = packed(whole, dtype);
  const auto [re, im] = parts_of(z);
  const auto as_tensor = [&re = re](const Part& part) {
    if (part.is_nothing()) return zeros_like(re).detach();
    return part.is_number() ? full_like(re, Scalar(part.number())).detach() : part.tensor().detach();
  };
  const Tensor zero = eq(z.detach(), Scalar(0.0)), real = as_tensor(b.re);
  const Tensor imaginary = b.is_complex() ? as_tensor(b.im) : zeros_like(real);
  const Tensor gone = logical_and(zero, gt(real, Scalar(0.0)));
  const Tensor none = logical_and(eq(real, Scalar(0.0)), eq(imaginary, Scalar(0.0))), one = logical_and(zero, none);
  const Tensor known = logical_or(gone, one);
  const Complex there{Part(where(known, Operand(Scalar(1.0)), Operand(re))), Part(im)};
  const Complex made = exponential(product(logarithm(there), b));
  const Tensor size = where(one, Operand(Scalar(1.0)), Operand(made.re.tensor()));
  return {Part(where(gone, Operand(Scalar(0.0)), Operand(size))),
          Part(where(known, Operand(Scalar(0.0)), Operand(made.im.tensor())))};
}

Tensor equal(const Complex& a, const Complex& b) {
  const auto same = [](const Part& x, const Part& y) {
    Tensor kept[2];
    const Part zero(0.0);
    return eq((x.is_nothing() ? zero : x).operand(kept[0]), (y.is_nothing() ? zero : y).operand(kept[1]));
  };
  return logical_and(same(a.re, b.re), same(a.im, b.im));
}

Complex scaled(const Complex& z, double by) { return {z.re * Part(by), z.im * Part(by)}; }

std::optional<Complex> function_of(ir::Op op, const Complex& z) {
  const Complex one{Part(1.0), Part()};
  switch (op) {
    case ir::Op::kSquare:
      return product(z, z);
    case ir::Op::kReciprocal:
      return quotient(one, z);
    case ir::Op::kSqrt:
      return square_root(z);
    case ir::Op::kRsqrt:
      return quotient(one, square_root(z));
    case ir::Op::kExp:
      return exponential(z);
    case ir::Op::kExp2:
      return exponential(scaled(z, std::numbers::ln2));
    case ir::Op::kExpm1:
      return exponential_less_one(z);
    case ir::Op::kLog:
      return logarithm(z);
    case ir::Op::kLog2:
      return scaled(logarithm(z), 1 / std::numbers::ln2);
    case ir::Op::kLog10:
      return scaled(logarithm(z), 1 / std::numbers::ln10);
    case ir::Op::kLog1p:
      return logarithm_of_one_more(z);
    case ir::Op::kSin:
      return sine(z);
    case ir::Op::kCos:
      return cosine(z);
    case ir::Op::kTan:
      return over_i(hyperbolic_tangent(times_i(z)));
    case ir::Op::kSinh:
      return hyperbolic_sine(z);
    case ir::Op::kCosh:
      return hyperbolic_cosine(z);
    case ir::Op::kTanh:
      return hyperbolic_tangent(z);
    case ir::Op::kAsin:
      return inverse_sine(z);
    case ir::Op::kAcos:
      return inverse_cosine(z);
    case ir::Op::kAtan:
      return inverse_tangent(z);
    case ir::Op::kAsinh:
      return inverse_hyperbolic_sine(z);
    case ir::Op::kAcosh:
      return inverse_hyperbolic_cosine(z);
    case ir::Op::kAtanh:
      return inverse_hyperbolic_tangent(z);
    case ir::Op::kSigmoid:
      return logistic(z);
    case ir::Op::kSilu:
      return product(z, logistic(z));
    case ir::Op::kSinc:
      return cardinal_sine(z);
    case ir::Op::kSign:
      return sign_of(z);
    default:
      return std::nullopt;
  }
}

}  // namespace

bool is_complex_number(const Operand& o) {
  return o.kind() == Operand::kTensor && o.meta()->weak && is_complex(o.meta()->dtype);
}

Complex::Complex(const Operand& o) {
  if (o.kind() == Operand::kNumber) {
    re = Part(o.number().to_double());
  } else if (is_complex_number(o)) {
    const auto [x, y] = read_number(o);
    re = Part(x), im = Part(y);
  } else {
    auto [x, y] = parts_of(Tensor(o.impl()));
    re = Part(std::move(x));
    if (y.defined()) im = Part(std::move(y));
  }
}

Tensor strong(const Operand& o) {
  if (!is_complex_number(o)) return Tensor(o.impl());
  const auto [x, y] = read_number(o);
  return complex_of(full({}, Scalar(x), DType::kFloat64), full({}, Scalar(y), DType::kFloat64));
}

std::optional<Tensor> complex_math(ir::Op op, const Complex& z, DType dtype) {
  if (auto made = function_of(op, z)) return packed(*made, dtype);
  return std::nullopt;
}

std::optional<Tensor> complex_math(ir::Op op, const Complex& a, const Complex& b, DType dtype) {
  switch (op) {
    case ir::Op::kMul:
      return packed(product(a, b), dtype);
    case ir::Op::kDiv:
      return packed(quotient(a, b), dtype);
    case ir::Op::kPow:
      return packed(power(a, b, dtype), dtype);
    case ir::Op::kEq:
      return equal(a, b);
    case ir::Op::kNe:
      return logical_not(equal(a, b));
    default:
      return std::nullopt;
  }
}

}  // namespace smolder::lazy
