// Elementary functions in float32: a range reduction and a minimax polynomial each, straight-line, at most two
// units in the last place from the truth (docs/math.md has the measured table). Coefficients are sollya's
// fpminimax on the intervals that the comments name.
//
// Functions on the path of activations and normalisations (exp, log, tanh, sigmoid, erf, sin, cos) stay in float32;
// rarer ones take a float64 detour, which costs twice the lanes and needs no care about the last bit.
#pragma once

#include <numbers>

#include "smolder/ir/scalar/math_common.h"

namespace smolder::ir::scalar {

namespace detail {

/// e^r for |r| <= ln 2 / 2, error 2^-28.
template <class B>
SMOLDER_INLINE F32<B> exp_reduced(F32<B> r) {
  return polynomial(r, {0x1.694ac4p-10, 0x1.12398ep-7, 0x1.555a28p-5, 0x1.555492p-3, 0x1.fffffap-2, 1, 1});
}

/// 2^f for |f| <= 1/2.
template <class B>
SMOLDER_INLINE F32<B> exp2_reduced(F32<B> f) {
  return polynomial(f, {0x1.3fabfep-13, 0x1.5f0ccap-10, 0x1.3b3098p-7, 0x1.c6af74p-5, 0x1.ebfbd8p-3, 0x1.62e43p-1, 1});
}

/// e^x for x in [-104, 89].
template <class B>
SMOLDER_INLINE F32<B> exp_clamped(F32<B> x) {
  auto [r, t] = reduce_ln2(x, kRoundForHalves<LaneType::kF32>);
  return scale_halves(exp_reduced(r), t);
}

/// e^x for x <= 89. What is nothing but zero, as of -inf where a softmax is masked, is not computed: denormal numbers
/// on the way to it take processors a hundred cycles each.
template <class B>
SMOLDER_INLINE F32<B> exp_or_zero(F32<B> x) {
  auto vanishes = x < -104;
  return select(vanishes, 0.0, exp_clamped(select(vanishes, 0.0, x)));
}

/// e^x for |x| < 87, with the bits of `exp`: no result is denormal there, so that the exponent is added to.
template <class B>
SMOLDER_INLINE F32<B> exp_normal(F32<B> x) {
  auto [r, t] = reduce_ln2(x, kRoundForHalves<LaneType::kF32>);
  return as_float(as_int(exp_reduced(r)) + (as_int(t) << 23) - (254 << 23));
}

// -- float64 at float32's need: errors below 2^-36, no special values

/// e^x for |x| < 700.
template <class B>
SMOLDER_INLINE F64<B> exp_lite(F64<B> x) {
  auto t = fma(x, std::numbers::log2e, kRound<LaneType::kF64>);
  auto n = t - kRound<LaneType::kF64>;
  auto r = fma(n, -std::numbers::ln2, x);
  auto p = polynomial(r, {0x1.9e887efafa205p-16, 0x1.a18606ed6fc5cp-13, 0x1.6c18d5177b0e3p-10, 0x1.1110a1f9bb15cp-7,
                          0x1.5555541ca351ep-5, 0x1.5555557e0af06p-3, 0x1.000000005e9bbp-1, 1, 1});
  return scale_exponent(p, t);
}

/// ln x for normal positive x; relative error below 2^-36 near 1 too.
template <class B>
SMOLDER_INLINE F64<B> log_lite(F64<B> x) {
  auto bits = as_int(x);
  auto e = ashr(bits - 0x3fe5555555555555, 52);  // 2/3 <= m < 4/3
  auto f = as_float(bits - (e << 52)) - 1.0;
  auto p =
      polynomial(f, {-0x1.a881fd87bb63p-4, 0x1.bd7bccc416dcfp-4, -0x1.3e63006b474c5p-4, 0x1.5f7865e733a63p-4,
                     -0x1.9b881e3573b68p-4, 0x1.c8b2c141e0109p-4, -0x1.ffea98864d0cp-4, 0x1.248a9dad5752ep-3,
                     -0x1.55558e4d8a607p-3, 0x1.9999bb396ccf3p-3, -0x1.ffffff91904f1p-3, 0x1.5555553d45eaep-2, -0.5});
  auto n = sitofp<LaneType::kF64>(itrunc<LaneType::kI32>(e));
  return fma(n, std::numbers::ln2, fma(p, f * f, f));
}

/// (log(1 + f) - f) / f^2 for f in [-1/3, 1/3], to 2^-27.7 of log(1 + f).
template <class B>
SMOLDER_INLINE F32<B> log_tail(F32<B> f) {
  return polynomial(f, {-0x1.080c9ep-3, 0x1.1e73ap-3, -0x1.f30e36p-4, 0x1.1ed424p-3, -0x1.559de4p-3, 0x1.99d05ep-3,
                        -0x1.fffefp-3, 0x1.555506p-2, -0.5});
}

/// x = 2^n (1 + f) with f in [-1/3, 1/3), for positive x, denormal too.
template <class B>
struct Log32 {
  I32<B> n;
  F32<B> f;

  SMOLDER_INLINE explicit Log32(F32<B> x) : n(as_int(x)), f(x) {
    auto tiny = (x < 0x1p-126) & (x > 0.0);
    auto bits = as_int(select_seldom(tiny, x * 0x1p23, x));
    n = ashr(bits - 0x3f2aaaab, 23);
    f = as_float(bits - (n << 23)) - 1.0;
    n = n - select_seldom(tiny, like(n, 23), 0);
  }
};

}  // namespace detail

// -- exponentials

template <class B>
SMOLDER_INLINE F32<B> exp(F32<B> x) {
  return detail::exp_or_zero(detail::at_most(x, 89));
}

template <class B>
SMOLDER_INLINE F32<B> exp2(F32<B> x) {
  x = detail::at_most(detail::at_least(x, -151), 129);
  constexpr double kRound = detail::kRoundForHalves<LaneType::kF32>;
  auto t = x + kRound;
  auto f = x - (t - kRound);
  return detail::scale_halves(detail::exp2_reduced(f), t);
}

/// 2^n (1 + q) - 1 with q = e^r - 1, at half scale so that 2^128 does not come up.
template <class B>
SMOLDER_INLINE F32<B> expm1(F32<B> x) {
  auto bounded = detail::at_most(detail::at_least(x, -20), 89);
  auto [r, t] = detail::reduce_ln2(bounded, detail::kRound<LaneType::kF32> + 126);
  auto p = polynomial(r, {0x1.9e0ca4p-13, 0x1.6d4388p-10, 0x1.111306p-7, 0x1.5554fp-5, 0x1.555554p-3, 0.5});
  auto q = fma(p, r * r, r);
  auto half_scale = detail::power_of_two(t);
  auto y = fma(half_scale, q, half_scale - 0.5) * 2.0;
  return select(abs(x) < 0x1p-25, x, y);  // keeps -0 and denormals
}

template <class B>
SMOLDER_INLINE F32<B> sigmoid(F32<B> x) {
  return detail::sigmoid_from(x, detail::exp_or_zero(-abs(x)));
}

/// |x| = n ln 2 / 2 + r. With e = 2^n and h = tanh r, tanh |x| is the quotient of (e - 1) + (e + 1) h by itself plus
/// 2 - 2 h: so what rounding did to the numerator cancels where it is large. |r - 0.09| <= ln 2 / 4: n is 0 up to
/// 0.26, where e - 1 and h would else all but cancel.
template <class B>
SMOLDER_INLINE F32<B> tanh(F32<B> x) {
  constexpr double kBiasedRound = detail::kRound<LaneType::kF32> + detail::kExponentBias<LaneType::kF32>;
  auto a = detail::at_most(abs(x), 10);  // beyond, it is 1
  auto t = fma(a - 0.09, 2 * std::numbers::log2e, kBiasedRound);
  auto r = fma(t - kBiasedRound, -0.5 * std::numbers::ln2, a);
  auto s = r * r;
  auto p = polynomial(s, {-0x1.a80cdp-5, 0x1.10f34ap-3, -0x1.555546p-2});
  auto h = fma(p, s * r, r);
  auto e = detail::power_of_two(t);
  auto top = fma(e + 1.0, h, e - 1.0);
  return with_sign(top / (top + fma(h, -2.0, 2.0)), x);
}

template <class B>
SMOLDER_INLINE F32<B> sinh(F32<B> x) {
  auto wide = extend(detail::at_most(detail::at_least(x, -90), 90));
  auto e = detail::exp_lite(wide);
  auto y = narrow((e - 1.0 / e) * 0.5);
  return select(abs(x) < 0x1p-5, fma(x * x * x, 1.0 / 6, x), y);
}

template <class B>
SMOLDER_INLINE F32<B> cosh(F32<B> x) {
  auto e = detail::exp_lite(extend(detail::at_most(abs(x), 90)));
  return narrow((e + 1.0 / e) * 0.5);
}

// -- logarithms

template <class B>
SMOLDER_INLINE F32<B> log(F32<B> x) {
  detail::Log32<B> parts(x);
  auto f = parts.f;
  auto r = fma(detail::log_tail(f), f * f, f);
  return detail::log_specials(x, fma(sitofp<LaneType::kF32>(parts.n), std::numbers::ln2, r));
}

namespace detail {
/// e * c + log(1 + f) * d, for log2 and log10: constants in two parts, small terms first.
template <class B>
SMOLDER_INLINE F32<B> scaled_log(F32<B> x, double c_high, double c_low, double d_high, double d_low) {
  Log32<B> parts(x);
  auto f = parts.f, e = sitofp<LaneType::kF32>(parts.n);
  auto tail = log_tail(f) * (f * f);
  auto low = fma(tail, d_high, fma(f, d_low, e * c_low));
  auto r = fma(f, d_high, low);
  return log_specials(x, fma(e, c_high, r));
}
}  // namespace detail

template <class B>
SMOLDER_INLINE F32<B> log2(F32<B> x) {
  return detail::scaled_log(x, 1, 0, 0x1.715476p0, 0x1.4ae0cp-26);
}

template <class B>
SMOLDER_INLINE F32<B> log10(F32<B> x) {
  return detail::scaled_log(x, 0x1.344136p-2, -0x1.ec10cp-27, 0x1.bcb7b2p-2, -0x1.5b235ep-27);
}

/// 1 + x = 2^e (1 + f), where f is formed from x scaled, not from the rounded sum.
template <class B>
SMOLDER_INLINE F32<B> log1p(F32<B> x) {
  auto n = ashr(as_int(x + 1.0) - 0x3f2aaaab, 23) << 23;
  auto scaled = as_float(as_int(x) - n);
  auto f = fma(as_float(0x40800000 - n), 0.25, -1.0) + scaled;  // 2^-e - 1 is exact
  auto r = fma(sitofp<LaneType::kF32>(n), std::numbers::ln2 * 0x1p-23, fma(detail::log_tail(f), f * f, f));
  r = with_sign(r, x);  // of -0
  r = select(x > -1.0, r, select(x == -1.0, like(x, -detail::kInf), detail::kNan));
  return select_seldom(x == detail::kInf, x, r);
}

template <class B>
SMOLDER_INLINE F32<B> asinh(F32<B> x) {
  auto a = extend(abs(x));
  auto y = narrow(detail::log_lite(a + sqrt(fma(a, a, 1.0))));
  y = copysign(select(abs(x) == detail::kInf, detail::kInf, y), x);
  return select(abs(x) < 0x1p-12, x, select(x != x, x, y));
}

template <class B>
SMOLDER_INLINE F32<B> acosh(F32<B> x) {
  auto a = extend(x);
  auto y = narrow(detail::log_lite(a + sqrt(fma(a, a, -1.0))));
  y = select(x == detail::kInf, detail::kInf, y);
  return select(x >= 1.0, y, detail::kNan);
}

template <class B>
SMOLDER_INLINE F32<B> atanh(F32<B> x) {
  auto a = extend(abs(x));
  auto y = narrow(detail::log_lite((a + 1.0) / (1.0 - a)) * 0.5);
  y = select(abs(x) == 1.0, detail::kInf, y);
  y = select(abs(x) <= 1.0, copysign(y, x), detail::kNan);
  return select(abs(x) < 0x1p-12, x, y);
}

// -- powers

namespace detail {
/// log2 x for positive x, to 2^-34 of it: float64 but for the terms from f^5 on.
template <class B>
SMOLDER_INLINE F64<B> log2_lite(F32<B> x) {
  Log32<B> parts(x);
  auto tail = polynomial(parts.f, {-0x1.3237b6p-3, 0x1.415936p-3, -0x1.cb55cp-4, 0x1.fb108p-4, -0x1.28db7ep-3,
                                   0x1.49702cp-3, -0x1.714506p-3, 0x1.a60c52p-3, -0x1.ec70fp-3});
  auto f = extend(parts.f), p = fma(extend(tail), f, 0x1.2776dd503575fp-2);
  for (double c : {-0x1.715476030e79p-2, 0x1.ec709da0ea173p-2, -0x1.71547652b82fep-1, std::numbers::log2e})
    p = fma(p, f, c);
  return fma(p, f, sitofp<LaneType::kF64>(parts.n));
}

/// 2^x = p 2^n.
template <class B>
struct Exp2 {
  F32<B> p;
  I32<B> n;
};
template <class B>
SMOLDER_INLINE Exp2<B> exp2_lite(F64<B> x) {
  auto t = x + kRound<LaneType::kF64>;
  auto f = narrow(x - (t - kRound<LaneType::kF64>));
  return {exp2_reduced(f), itrunc<LaneType::kI32>(as_int(t))};
}
}  // namespace detail

template <class B>
SMOLDER_INLINE F32<B> pow(F32<B> x, F32<B> y) {
  auto exponent = detail::log2_lite(select(x == 0.0, 1.0, abs(x))) * extend(y);
  auto [p, n] = detail::exp2_lite(exponent);
  auto normal = as_float(as_int(p) + (n << 23));
  auto magnitude = select_rare(!(abs(exponent) < 126.0), std::array{normal, normal}, [exponent] {
    auto [p, n] = detail::exp2_lite(detail::at_most(detail::at_least(exponent, -151), 151));
    auto any = detail::scale_halves(p, as_float(n + 2 * detail::kExponentBias<LaneType::kF32>));
    return std::array{any, any};
  })[0];
  return detail::pow_specials(x, y, magnitude);
}

// -- error function

/// |x| < 0.9375: odd polynomial, error 2^-30. Else 1 - 2^p(|x|), p the logarithm of erfc to 2^-28 of erf.
template <class B>
SMOLDER_INLINE F32<B> erf(F32<B> x) {
  auto a = abs(x);
  auto s = x * x;
  auto p = polynomial(s, {0x1.55729cp-14, -0x1.a7c4eep-11, 0x1.54772p-8, -0x1.b804e6p-6, 0x1.ce2d8p-4, -0x1.81274p-2,
                          0x1.20dd75p0 - 1});
  auto small = fma(p, a, a);
  auto b = detail::at_most(a, 3.95);
  auto l = polynomial(
      b, {0x1.23e3dcp-12, -0x1.1cf6b2p-8, 0x1.055p-5, -0x1.325de6p-3, -0x1.d6dd2cp-1, -0x1.a06c96p0, -0x1.639e68p-12});
  auto t = l + detail::kRound<LaneType::kF32>;
  auto f = l - (t - detail::kRound<LaneType::kF32>);
  auto e = polynomial(f, {0x1.5bfe92p-10, 0x1.3cebdp-7, 0x1.c6b69ap-5, 0x1.ebf9b8p-3, 0x1.62e42ap-1, 1});
  auto large = 1.0 - detail::scale_exponent(e, t);
  return with_sign(select(a >= 0.9375, large, small), x);
}

/// e^-a^2 erfcx(a) for a = |x|, through float64: erfcx as a polynomial in (a - 2) / (a + 2), error 2^-36.
template <class B>
SMOLDER_INLINE F32<B> erfc(F32<B> x) {
  auto a = extend(detail::at_most(abs(x), 10.5));  // beyond, the result rounds to 0
  auto p = polynomial((a - 2.0) / (a + 2.0),
                      {0x1.93eecf02c5543p-20, 0x1.16e693031b93ap-19, -0x1.6f58b782185f4p-17, -0x1.cb5da861e75a1p-16,
                       0x1.addc7fc7c1211p-16, 0x1.6cff1060ff69p-13, 0x1.72d54bf3c8368p-15, -0x1.0163e46372d48p-10,
                       -0x1.bc360ad4ccd35p-11, 0x1.ca95a98290e11p-8, 0x1.e94778683c014p-9, -0x1.437f0b30b687cp-4,
                       0x1.eeea7dba3b9cdp-3, -0x1.b57034eff9d43p-2, 0x1.058671b5377fep-2});
  auto y = detail::exp_lite(-a * a) * p;
  return narrow(select(extend(x) < 0.0, 2.0 - y, y));
}

}  // namespace smolder::ir::scalar
