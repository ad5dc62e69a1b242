// Circular functions and their inverses in float32; see math_f32.h.
#pragma once

#include <limits>
#include <numbers>

#include "smolder/ir/scalar/num.h"
#include "smolder/ir/scalar/reduce_pi.h"

namespace smolder::ir::scalar {

namespace detail {
/// sin r for |r| <= pi/4, error 2^-28; s = r^2.
template <class B>
SMOLDER_INLINE F32<B> sin_reduced(F32<B> r, F32<B> s) {
  auto p = polynomial(s, {-0x1.9953d8p-13, 0x1.110778p-7, -0x1.555546p-3});
  return fma(p * s, r, r);
}
/// cos r for |r| <= pi/4, error 2^-33; s = r^2.
template <class B>
SMOLDER_INLINE F32<B> cos_reduced(F32<B> s) {
  return polynomial(s, {0x1.99e9p-16, -0x1.6c0c2ap-10, 0x1.55554ap-5, -0.5, 1});
}

/// sin(r + q pi/2).
template <class B>
SMOLDER_INLINE F32<B> sin_quadrant(F32<B> r, I32<B> q) {
  auto s = r * r;
  auto y = select((q & 1) != 0, cos_reduced(s), sin_reduced(r, s));
  return as_float(as_int(y) ^ ((q & 2) << 30));
}

/// atan z for 0 <= z <= 1, error 2^-28.5.
template <class B>
SMOLDER_INLINE F32<B> atan_unit(F32<B> z) {
  auto s = z * z;
  auto p = polynomial(s, {-0x1.d5a1aap-10, 0x1.6551e2p-7, -0x1.fe7d24p-6, 0x1.da9c2ep-5, -0x1.5825f2p-4, 0x1.c0946cp-4,
                          -0x1.24211ap-3, 0x1.9991ecp-3, -0x1.55553ep-2});
  return fma(p * s, z, z);
}

/// asin(z) - z for z^2 = s <= 1/4, to 2^-27.6 of asin z.
template <class B>
SMOLDER_INLINE F32<B> asin_tail(F32<B> z, F32<B> s) {
  auto p = polynomial(s, {0x1.5959aap-5, 0x1.8c415ap-6, 0x1.747b72p-5, 0x1.330206p-4, 0x1.5555c8p-3});
  return p * s * z;
}
}  // namespace detail

template <class B>
SMOLDER_INLINE F32<B> sin(F32<B> x) {
  auto [r, q] = detail::reduce_pi_f32(x);
  return select(x == 0.0, x, detail::sin_quadrant(r, q));  // keeps -0
}

template <class B>
SMOLDER_INLINE F32<B> cos(F32<B> x) {
  auto [r, q] = detail::reduce_pi_f32(x);
  return detail::sin_quadrant(r, q + 1);
}

/// Sine over cosine in float64.
template <class B>
SMOLDER_INLINE F32<B> tan(F32<B> x) {
  auto reduced = detail::reduce_pi_lite(x);
  auto r = reduced.high, s = r * r;
  auto sine = polynomial(s, {-0x1.a95ffe752d076p-26, 0x1.71d768a18d439p-19, -0x1.a019f93122c81p-13,
                             0x1.1111110c813b1p-7, -0x1.55555555521e5p-3, 1}) *
              r;
  auto cosine = polynomial(s, {-0x1.23c8231e86342p-22, 0x1.a00eb23348b95p-16, -0x1.6c16b33a9cfcfp-10,
                               0x1.55555545b0466p-5, -0x1.ffffffffe9654p-2, 1});
  auto odd = (reduced.quadrant & 1) != 0;
  auto y = narrow(select(odd, -cosine, sine) / select(odd, sine, cosine));
  return select(x == 0.0, x, y);
}

}  // namespace smolder::ir::scalar
