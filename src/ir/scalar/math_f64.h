// Elementary functions in float64; see math_f32.h. Where a rounding would cost the last bit, its error is carried
// along in a second number.
#pragma once

#include <numbers>

#include "smolder/ir/scalar/math_common.h"

namespace smolder::ir::scalar {

namespace detail {

/// e^r - 1 - r for |r| <= ln 2 / 2, to 2^-57.9 of e^r.
template <class B>
SMOLDER_INLINE F64<B> exp_tail(F64<B> r) {
  auto p = polynomial(r, {0x1.ad8d5903430dap-26, 0x1.28ae3e02940ap-22, 0x1.71df1d1455fadp-19, 0x1.a0199921d1c5bp-16,
                          0x1.a01a012dcb0aep-13, 0x1.6c16c1848904ap-10, 0x1.111111112725fp-7, 0x1.5555555550688p-5,
                          0x1.55555555554fcp-3, 0x1.000000000000ap-1});
  return p * r * r;
}
/// e^r for |r| <= ln 2 / 2.
template <class B>
SMOLDER_INLINE F64<B> exp_reduced(F64<B> r) {
  return (exp_tail(r) + r) + 1.0;
}

/// e^x for x in [-746, 710].
template <class B>
SMOLDER_INLINE F64<B> exp_clamped(F64<B> x) {
  auto [r, t] = reduce_ln2(x, kRoundForHalves<LaneType::kF64>);
  return scale_halves(exp_reduced(r), t);
}
/// e^x for x <= 710; as float32's.
template <class B>
SMOLDER_INLINE F64<B> exp_or_zero(F64<B> x) {
  auto vanishes = x < -746;
  return select(vanishes, 0.0, exp_clamped(select(vanishes, 0.0, x)));
}
/// e^x / 2 for x in [-746, 711], without overflow below it.
template <class B>
SMOLDER_INLINE F64<B> half_exp(F64<B> x) {
  auto [r, t] = reduce_ln2(x, kRoundForHalves<LaneType::kF64>);
  return scale_halves(exp_reduced(r), t - 1.0);
}

/// (atanh(s) / s - 1 - z / 3) / z^2 for z = s^2 <= 1/25, to 2^-69 of atanh(s).
template <class B>
SMOLDER_INLINE F64<B> atanh_tail(F64<B> z) {
  return polynomial(z, {0x1.017bae1e02fd1p-4, 0x1.dad1294cd100ep-5, 0x1.113a108f0f87p-4, 0x1.3b1298b92491ep-4,
                        0x1.745d1bc4529aep-4, 0x1.c71c71bc74e2ep-4, 0x1.2492492498d52p-3, 0x1.9999999999968p-3});
}

/// x = 2^e m with m in [2/3, 4/3), for positive x, denormal too.
template <class B>
struct Scaled64 {
  F64<B> e, m;

  SMOLDER_INLINE explicit Scaled64(F64<B> x) {
    auto tiny = x < 0x1p-1022;
    auto bits = as_int(select(tiny, x * 0x1p54, x));
    auto n = ashr(bits - 0x3fe5555555555555, 52);
    m = as_float(bits - (n << 52));
    e = sitofp<LaneType::kF64>(itrunc<LaneType::kI32>(n)) - select(tiny, like(x, 54.0), 0.0);
  }
};

/// A number as the unevaluated sum of two.
template <class B>
struct Pair64 {
  F64<B> high, low;
};

/// log(1 + f) for |f| <= 1/3 to about 2^-58: f - f^2/2 is kept apart from the rest.
template <class B>
SMOLDER_INLINE Pair64<B> log_reduced(F64<B> f) {
  auto s = f / (f + 2.0);
  auto z = s * s;
  auto r = fma(atanh_tail(z), z, 1.0 / 3) * (z + z);  // log(1 + f) = 2s + s r
  auto half_square = f * f * 0.5;
  auto high = f - half_square;
  return {high, ((f - high) - half_square) + s * (half_square + r)};
}

/// e ln 2 + log(1 + f) with the low part of f. Exact to an ulp or so.
template <class B>
SMOLDER_INLINE F64<B> log_sum(F64<B> e, Pair64<B> l) {
  auto whole = e * 0x1.62e42fefa38p-1;  // exact
  auto sum = whole + l.high;
  auto rest = fma(e, 0x1.ef35793c7673p-45, l.low);
  return sum + (ordered_sum_error(whole, l.high, sum) + rest);
}

/// log x to 2^-65 and better, for positive x.
template <class B>
inline Pair64<B> log_pair(F64<B> x) {
  Scaled64<B> scaled(x);
  auto f = scaled.m - 1.0;
  // s = f / (1 + m) in two parts
  auto d = scaled.m + 1.0, d_low = scaled.m - (d - 1.0);
  auto reciprocal = 1.0 / d;
  auto s = f * reciprocal;
  auto s_low = fma(-s, d_low, fma(-s, d, f)) * reciprocal;
  auto z = s * s;
  auto z_low = fma(s + s, s_low, fma(s, s, -z));
  // p = s^2 (1/3 + s^2 tail)
  constexpr double kThird = 1.0 / 3, kThirdLow = 0x1.5555555555555p-56;
  auto tail = z * atanh_tail(z);
  auto q = tail + kThird;
  auto q_low = ordered_sum_error(like(q, kThird), tail, q) + kThirdLow;
  auto p = z * q;
  auto p_low = fma(z, q_low, fma(z_low, q, fma(z, q, -p)));
  // log m = 2s + 2s p
  auto s2 = s + s, s2_low = s_low + s_low;
  auto w = s2 * p;
  auto w_low = fma(s2, p_low, fma(s2_low, p, fma(s2, p, -w)));
  auto log_m = s2 + w;
  auto log_m_low = ordered_sum_error(s2, w, log_m) + (w_low + s2_low);
  auto whole = scaled.e * 0x1.62e42fefa38p-1;  // exact
  auto sum = whole + log_m;
  return {sum, ordered_sum_error(whole, log_m, sum) + fma(scaled.e, 0x1.ef35793c7673p-45, log_m_low)};
}

/// log(1 + z + z_low) + extra ln 2, for z > -1: 1 + z = 2^e (1 + f), where f is formed from z scaled, not from the
/// rounded sum.
template <class B>
inline F64<B> log1p_pair(F64<B> z, F64<B> z_low, F64<B> extra) {
  auto n = ashr(as_int(z + 1.0) - 0x3fe5555555555555, 52);
  auto bits = n << 52;
  auto scale = as_float(0x4010000000000000 - bits) * 0.25;  // 2^-e, down to 2^-1024
  auto scaled = as_float(as_int(z) - bits);
  auto offset = scale - 1.0;
  auto f = offset + scaled;
  auto f_low = fma(z_low, scale, sum_error(offset, scaled, f));
  auto l = log_reduced(f);
  l.low = l.low + fma(-f_low, f, f_low);
  auto r = log_sum(sitofp<LaneType::kF64>(itrunc<LaneType::kI32>(n)) + extra, l);
  return select(abs(z) < 0x1p-54, z, r);
}

/// Beyond this, sqrt(x^2 +- 1) is x: asinh and acosh are log(2x), with the exponent raised by one.
inline constexpr double kSquareDominates = 0x1p55;

}  // namespace detail

// -- exponentials

template <class B>
SMOLDER_INLINE F64<B> exp(F64<B> x) {
  return detail::exp_or_zero(detail::at_most(x, 710));
}

template <class B>
SMOLDER_INLINE F64<B> exp2(F64<B> x) {
  x = detail::at_most(detail::at_least(x, -1077), 1025);
  constexpr double kRound = detail::kRoundForHalves<LaneType::kF64>;
  auto t = x + kRound;
  auto f = x - (t - kRound);
  auto p = polynomial(f, {0x1.e96c003cf3761p-32, 0x1.e61da9b9bab83p-28, 0x1.b52527b1d2bb9p-24, 0x1.62bfc627a9255p-20,
                          0x1.ffcbfc6419476p-17, 0x1.4309130f7bdb8p-13, 0x1.5d87fe789f11dp-10, 0x1.3b2ab6fb9fd79p-7,
                          0x1.c6b08d704a12ap-5, 0x1.ebfbdff82c5a6p-3, 0x1.62e42fefa39efp-1, 1});
  return detail::scale_halves(p, t);
}

/// As the float32 one, with the rounding error of r.
template <class B>
SMOLDER_INLINE F64<B> expm1(F64<B> x) {
  auto bounded = detail::at_most(detail::at_least(x, -40), 710);
  constexpr double kRound = detail::kRound<LaneType::kF64> + 1022;
  auto [r, t] = detail::reduce_ln2(bounded, kRound);
  auto n = t - kRound;
  auto r_low = fma(n, -0x1.ef35793c7673p-45, fma(n, -0x1.62e42fefa38p-1, bounded) - r);
  auto p = polynomial(r, {0x1.1ee74d5e6faebp-29, 0x1.af6e9ad82629fp-26, 0x1.27e537aadc2a2p-22, 0x1.71ddee675194ep-19,
                          0x1.a01a017b3f9bdp-16, 0x1.a01a01b447babp-13, 0x1.6c16c16c1ec97p-10, 0x1.111111110e9f7p-7,
                          0x1.5555555555543p-5, 0x1.555555555555cp-3, 0.5});
  auto q = fma(p, r * r, r_low) + r;
  auto half_scale = detail::power_of_two(t);
  auto y = fma(half_scale, q, half_scale - 0.5) * 2.0;
  return select(abs(x) < 0x1p-54, x, y);
}

template <class B>
SMOLDER_INLINE F64<B> sigmoid(F64<B> x) {
  return detail::sigmoid_from(x, detail::exp_or_zero(-abs(x)));
}

/// |x| < 0.625: odd polynomial, error 2^-61. Else 1 - 2 / (e^2|x| + 1).
template <class B>
SMOLDER_INLINE F64<B> tanh(F64<B> x) {
  auto a = abs(x);
  auto s = x * x;
  auto p = polynomial(s, {0x1.960f9fd61a10cp-18, -0x1.facbac351bc63p-16, 0x1.801d2380d111p-14, -0x1.f113c984afccbp-13,
                          0x1.350b936866549p-11, -0x1.7d9c348f0878ep-10, 0x1.d6d35a58217cdp-9, -0x1.226e32d073edap-7,
                          0x1.664f4870ca5eep-6, -0x1.ba1ba1b9d1b7fp-5, 0x1.1111111110c54p-3, -0x1.5555555555552p-2});
  auto small = fma(p * s, a, a);
  auto [r, t] = detail::reduce_ln2(detail::at_most(a + a, 40), detail::kRound<LaneType::kF64>);
  auto large = 1.0 - 2.0 / (detail::scale_exponent(detail::exp_reduced(r), t) + 1.0);
  return with_sign(select(a >= 0.625, large, small), x);
}

/// |x| < 1: odd polynomial, error 2^-62.
template <class B>
SMOLDER_INLINE F64<B> sinh(F64<B> x) {
  auto a = abs(x);
  auto s = x * x;
  auto p = polynomial(s, {0x1.4095793845891p-48, 0x1.aab9951a7065dp-41, 0x1.612abe6b5d71ep-33, 0x1.ae644b32db998p-26,
                          0x1.71de3a60a9f7dp-19, 0x1.a01a01a00db3ap-13, 0x1.111111111117cp-7, 0x1.5555555555555p-3});
  auto small = fma(p * s, a, a);
  auto e = detail::half_exp(detail::at_most(a, 711));
  return with_sign(select(a >= 1.0, e - 0.25 / e, small), x);
}

template <class B>
SMOLDER_INLINE F64<B> cosh(F64<B> x) {
  auto e = detail::half_exp(detail::at_most(abs(x), 711));
  return e + 0.25 / e;
}

// -- logarithms

template <class B>
SMOLDER_INLINE F64<B> log(F64<B> x) {
  detail::Scaled64<B> scaled(x);
  return detail::log_specials(x, detail::log_sum(scaled.e, detail::log_reduced(scaled.m - 1.0)));
}

namespace detail {
/// e * (c + c_low) + log(m) * (d + d_low); c has bits to spare, so that e * c is exact.
template <class B>
inline F64<B> scaled_log(F64<B> x, double c, double c_low, double d, double d_low) {
  Scaled64<B> scaled(x);
  auto l = log_reduced(scaled.m - 1.0);
  auto product = l.high * d;
  auto product_low = fma(l.high, d, -product) + fma(l.low, d, l.high * d_low);
  auto whole = scaled.e * c;
  auto sum = whole + product;
  auto rest = fma(scaled.e, c_low, product_low);
  return log_specials(x, sum + (ordered_sum_error(whole, product, sum) + rest));
}
}  // namespace detail

template <class B>
SMOLDER_INLINE F64<B> log2(F64<B> x) {
  return detail::scaled_log(x, 1, 0, 0x1.71547652b82fep0, 0x1.777d0ffda0d24p-56);
}

template <class B>
SMOLDER_INLINE F64<B> log10(F64<B> x) {
  return detail::scaled_log(x, 0x1.34413509f78p-2, 0x1.fef311f12b358p-46, 0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57);
}

template <class B>
SMOLDER_INLINE F64<B> log1p(F64<B> x) {
  auto zero = like(x, 0.0);
  auto r = detail::log1p_pair(x, zero, zero);
  r = select(x > -1.0, r, select(x == -1.0, like(x, -detail::kInf), detail::kNan));
  return select(x == detail::kInf, detail::kInf, r);
}

/// log1p(a + a^2 / (1 + sqrt(1 + a^2))).
template <class B>
SMOLDER_INLINE F64<B> asinh(F64<B> x) {
  auto a = abs(x);
  auto huge = a > detail::kSquareDominates;
  auto square = a * a;
  auto w = square / (sqrt(square + 1.0) + 1.0);
  auto z = a + w;
  auto z_low = detail::ordered_sum_error(a, w, z);
  auto y = detail::log1p_pair(select(huge, a, z), select(huge, 0.0, z_low), select(huge, like(x, 1.0), 0.0));
  y = select(a < detail::kInf, y, a);  // infinity and nan
  return select(a < 0x1p-28, x, with_sign(y, x));
}

/// log1p(t + sqrt(t^2 + 2t)) with t = x - 1.
template <class B>
SMOLDER_INLINE F64<B> acosh(F64<B> x) {
  auto huge = x > detail::kSquareDominates;
  auto t = x - 1.0;
  auto root = sqrt(fma(t, t, t + t));
  auto z = root + t;
  auto z_low = detail::ordered_sum_error(root, t, z);
  auto y = detail::log1p_pair(select(huge, x, z), select(huge, 0.0, z_low), select(huge, like(x, 1.0), 0.0));
  y = select(x < detail::kInf, y, x);
  return select(x >= 1.0, y, detail::kNan);
}

/// log1p(2a + 2a^2 / (1 - a)) / 2.
template <class B>
SMOLDER_INLINE F64<B> atanh(F64<B> x) {
  auto a = abs(x);
  auto twice = a + a;
  auto w = twice * a / (1.0 - a);
  auto z = twice + w;
  auto y = detail::log1p_pair(z, detail::sum_error(twice, w, z), like(x, 0.0)) * 0.5;
  y = select(a < 0x1p-28, a, select(a == 1.0, detail::kInf, y));
  return select(a <= 1.0, with_sign(y, x), detail::kNan);
}

// -- powers

/// e^(y log x), the exponent to 2^-64 of itself.
template <class B>
SMOLDER_INLINE F64<B> pow(F64<B> x, F64<B> y) {
  auto l = detail::log_pair(abs(x));
  auto exponent = y * l.high;
  auto low = fma(y, l.low, fma(y, l.high, -exponent));
  auto bounded = detail::at_most(detail::at_least(exponent, -760), 720);
  low = select(bounded == exponent, low, 0.0);
  auto [r, t] = detail::reduce_ln2(bounded, detail::kRoundForHalves<LaneType::kF64>);
  auto magnitude = detail::scale_halves(detail::exp_reduced(r + low), t);
  return detail::pow_specials(x, y, magnitude);
}

// -- error function

namespace detail {
/// erfc(a) for 1/2 <= a <= 28: e^-a^2 W / (1 + 2a), where W = (1 + 2a) e^a^2 erfc(a) is between 1 and 1.13 and a
/// polynomial in t = (a - 4) / (a + 4), error 2^-56.5. The roundings of t, of the divisor and of a^2 are made good.
template <class B>
inline F64<B> erfc_positive(F64<B> a) {
  // t = 1 - 8 / (a + 4) and what it lacks
  auto d = a + 4.0, d_low = a - (d - 4.0);
  auto u = 1.0 / d;
  auto u_low = u * fma(-u, d_low, fma(-u, d, 1.0));
  auto t = fma(u, -8.0, 1.0);
  auto t_low = fma(u_low, -8.0, fma(u, -8.0, 1.0 - t));
  auto slope = polynomial(t, {0x1.e749ep-2, -0x1.0c1a64p-1, 0x1.38798ap-2, -0x1.7893fap-2, 0x1.e7bceap-3, 0x1.c6e32p-6,
                              -0x1.201352p-3});  // dW/dt to 2^-9
  auto p =
      polynomial(t, {0x1.3c6f74e5aa821p-30,  0x1.9a1ca720051cp-30,   -0x1.e7a43d65d6e54p-27, -0x1.253349ddea18cp-26,
                     0x1.dc56ade0ff64bp-24,  0x1.3d1cd8549fbadp-24,  -0x1.bbdda0ec72dfdp-21, 0x1.3bd01e8b6e86dp-22,
                     0x1.7f3e6aef4398dp-18,  -0x1.788c710f577d4p-17, -0x1.995be4f08d3a9p-16, 0x1.3be05dc0808bep-13,
                     -0x1.a1df0c9b4f89cp-13, -0x1.8d4a9b1b7d8d5p-11, 0x1.49c672621caa3p-8,   -0x1.09623884786e1p-6,
                     0x1.3079edf6ff3d7p-5,   -0x1.0fb06dfe47bcap-4,  0x1.7fee004e0ea69p-4,   -0x1.9ddb23c3e9674p-4,
                     0x1.16ecefcfa553p-4,    0x1.f7f5df66fd9b1p-7,   -0x1.1df1ad154a29p-3,   0x1.dd2c8b74febf6p-3});
  p = fma(slope, t_low, p);
  // g = (1 + p) / (1 + 2a), the reciprocal in two parts
  auto s = a + 0.5, s_low = (a - s) + 0.5;
  auto r = 0.5 / s;
  auto r_low = (r + r) * fma(-r, s_low, fma(-r, s, 0.5));
  auto rest = fma(p, r, r_low);
  auto g = r + rest, g_low = ordered_sum_error(r, rest, g);
  // e^-a^2 = 2^n (1 + e + e_low)
  auto square = a * a;
  auto error = fma(a, a, -square);
  constexpr double kRound = kRoundForHalves<LaneType::kF64>;
  auto [v, scale] = reduce_ln2(-square, kRound);
  auto tail = exp_tail(v);
  auto e = v + tail;
  auto e_low = ordered_sum_error(v, tail, e) - fma(e, error, error);
  return scale_halves(g + fma(g, e, fma(g, e_low, g_low)), scale);
}

/// erf(a) for 0 <= a <= 1, error 2^-56.
template <class B>
SMOLDER_INLINE F64<B> erf_small(F64<B> a) {
  auto p =
      polynomial(a * a, {0x1.25ec3cb74e2efp-34, -0x1.452ac54ffb859p-30, 0x1.fc0d5c2f29023p-27, -0x1.5f8e4d2412c7p-23,
                         0x1.b9ed71fb0fe73p-20, -0x1.f4d31d85b4f84p-17, 0x1.f9a3342152cf7p-14, -0x1.c02db49229b1fp-11,
                         0x1.565bcd126d6edp-8, -0x1.b82ce312ab0a3p-6, 0x1.ce2f21a04360fp-4, -0x1.812746b0379fdp-2,
                         0x1.06eba8214db69p-3});
  return fma(p, a, a);
}
}  // namespace detail

template <class B>
SMOLDER_INLINE F64<B> erfc(F64<B> x) {
  auto a = abs(x);
  auto y = detail::erfc_positive(detail::at_most(a, 27.5));  // beyond, the result rounds to 0
  y = select(a < 0.5, 1.0 - detail::erf_small(a), y);
  return select(x < 0.0, 2.0 - y, y);
}

template <class B>
SMOLDER_INLINE F64<B> erf(F64<B> x) {
  auto a = abs(x);
  auto large = 1.0 - detail::erfc_positive(detail::at_most(a, 6));
  return with_sign(select(a >= 1.0, large, detail::erf_small(a)), x);
}

}  // namespace smolder::ir::scalar
