// Circular functions and their inverses in float64; see math_f64.h.
#pragma once

#include <limits>
#include <numbers>

#include "smolder/ir/scalar/num.h"
#include "smolder/ir/scalar/reduce_pi.h"

namespace smolder::ir::scalar {

namespace detail {
/// A sine or cosine before its last addition: `main` + `rest`, |main| > |rest|.
template <class B>
struct SineParts {
  F64<B> main, rest;
  SMOLDER_INLINE F64<B> sum() const { return main + rest; }
};

/// sin(r + low) for |r| <= pi/4, error 2^-58; s = r^2.
template <class B>
SMOLDER_INLINE SineParts<B> sin_reduced(F64<B> r, F64<B> low, F64<B> s) {
  auto p = polynomial(s, {0x1.5d8d925cd096ep-33, -0x1.ae5e52783ebf4p-26, 0x1.71de355cd728p-19, -0x1.a01a019bf023fp-13,
                          0x1.111111110f753p-7, -0x1.5555555555548p-3});
  return {r, fma(p * s, r, fma(s * -0.5, low, low))};
}
/// cos(r + low) for |r| <= pi/4, error 2^-64; s = r^2. 1 - s/2 is kept with its rounding error.
template <class B>
SMOLDER_INLINE SineParts<B> cos_reduced(F64<B> r, F64<B> low, F64<B> s) {
  auto p = polynomial(s, {-0x1.8fa5e7dcb6e23p-37, 0x1.1ee9daca7e70bp-29, -0x1.27e4f7f05967fp-22, 0x1.a01a019c8de9dp-16,
                          -0x1.6c16c16c1500ep-10, 0x1.555555555554bp-5});
  auto half = s * 0.5;
  auto w = 1.0 - half;
  return {w, ((1.0 - w) - half) + fma(p * s, s, -(r * low))};
}

/// sin(r + low + q pi/2).
template <class B>
SMOLDER_INLINE F64<B> sin_quadrant(F64<B> r, F64<B> low, I64<B> q) {
  auto s = r * r;
  auto y = select((q & 1) != 0, cos_reduced(r, low, s).sum(), sin_reduced(r, low, s).sum());
  return as_float(as_int(y) ^ ((q & 2) << 62));
}

/// atan z for 0 <= z <= 1, error 2^-57.6.
template <class B>
SMOLDER_INLINE F64<B> atan_unit(F64<B> z) {
  auto s = z * z;
  auto p = polynomial(s, {0x1.bbed9a0d9d2e7p-17, -0x1.3f364a25134c3p-13, 0x1.b3fac8704d47dp-11, -0x1.7a3998a3a2487p-9,
                          0x1.d7b925caa4892p-8,  -0x1.c78fcc1616993p-7,  0x1.683cc8eceb055p-6,  -0x1.e9fa0d38f10fep-6,
                          0x1.2c2e5cb19de41p-5,  -0x1.59a3ff1e0359cp-5,  0x1.82dad798fe0acp-5,  -0x1.ae5e72bfe9e67p-5,
                          0x1.e1bba66bedb2p-5,   -0x1.110e5126fa3b8p-4,  0x1.3b13669a29c9ap-4,  -0x1.745d11ae74c4cp-4,
                          0x1.c71c717fcf76cp-4,  -0x1.249249237f57dp-3,  0x1.99999999955b4p-3,  -0x1.5555555555526p-2});
  return fma(p * s, z, z);
}

/// asin(z) - z for z^2 = s <= 1/4, to 2^-59.9 of asin z.
template <class B>
SMOLDER_INLINE F64<B> asin_tail(F64<B> z, F64<B> s) {
  auto p = polynomial(
      s, {0x1.0b45e9c0352cfp-5, -0x1.57fad03d2f5b6p-6, 0x1.639a88e7509b4p-6, 0x1.e5fbe9b6e03d6p-9, 0x1.613c1e5e2f8a7p-7,
          0x1.75859daf6a83dp-7, 0x1.ca1f8af1b8d2ap-7, 0x1.1c49f077d744p-6, 0x1.6e8bdedebf929p-6, 0x1.f1c71a95002fdp-6,
          0x1.6db6db721247bp-5, 0x1.333333332e133p-4, 0x1.5555555555577p-3});
  return p * s * z;
}
}  // namespace detail

template <class B>
SMOLDER_INLINE F64<B> sin(F64<B> x) {
  auto a = detail::reduce_pi_f64(x);
  return select(x == 0.0, x, detail::sin_quadrant(a.high, a.low, a.quadrant));
}

template <class B>
SMOLDER_INLINE F64<B> cos(F64<B> x) {
  auto a = detail::reduce_pi_f64(x);
  return detail::sin_quadrant(a.high, a.low, a.quadrant + 1);
}

/// Sine over cosine, each with the rounding error of its last addition.
template <class B>
SMOLDER_INLINE F64<B> tan(F64<B> x) {
  auto a = detail::reduce_pi_f64(x);
  auto s = a.high * a.high;
  auto sine = detail::sin_reduced(a.high, a.low, s), cosine = detail::cos_reduced(a.high, a.low, s);
  auto sin = sine.sum(), cos = cosine.sum();
  auto sin_low = (sine.main - sin) + sine.rest, cos_low = (cosine.main - cos) + cosine.rest;
  auto odd = (a.quadrant & 1) != 0;
  auto top = select(odd, -cos, sin), top_low = select(odd, -cos_low, sin_low);
  auto bottom = select(odd, sin, cos), bottom_low = select(odd, sin_low, cos_low);
  auto reciprocal = 1.0 / bottom;
  auto q = top * reciprocal;
  auto residual = fma(-q, bottom_low, fma(-q, bottom, top) + top_low);
  return select(x == 0.0, x, fma(residual, reciprocal, q));
}

}  // namespace smolder::ir::scalar
