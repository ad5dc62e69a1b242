// Shared by the float32 and float64 elementary functions: rounding by addition, scaling by powers of two, special
// values.
#pragma once

#include <limits>
#include <numbers>

#include "smolder/ir/scalar/num.h"

namespace smolder::ir::scalar::detail {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Bits of the fraction.
template <LaneType L>
inline constexpr int kFraction = L == LaneType::kF32 ? 23 : 52;
template <LaneType L>
inline constexpr int kExponentBias = L == LaneType::kF32 ? 127 : 1023;

/// Added to a number below 2^(fraction bits - 2) in magnitude, leaves it rounded to an integer n in the low bits;
/// subtracted again, n as a float. One addition instead of a rounding and a conversion.
template <LaneType L>
inline constexpr double kRound = L == LaneType::kF32 ? 0x1.8p23 : 0x1.8p52;

/// 2^n, where the low bits of `t` are n + bias, for a normal 2^n.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> power_of_two(Num<B, L> t) {
  return as_float(as_int(t) << kFraction<L>);
}

/// `p` times 2^n, where `t` is kRound + n: adds to the exponent, so both must be normal. Not for nan, which may come
/// out as a number.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> scale_exponent(Num<B, L> p, Num<B, L> t) {
  return as_float(as_int(p) + (as_int(t) << kFraction<L>));
}

/// `p` times 2^n, where the low bits of `t` are n + 2 bias: 2^n as the product of its two halves, so that results
/// below the normal range round once and those above overflow.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> scale_halves(Num<B, L> p, Num<B, L> t) {
  auto whole = as_int(t) << kFraction<L>;
  auto half = lshr(as_int(t), 1) << kFraction<L>;
  return p * as_float(half) * as_float(whole - half);
}
template <LaneType L>
inline constexpr double kRoundForHalves = kRound<L> + 2 * kExponentBias<L>;

/// x = n ln 2 + r with |r| <= ln 2 / 2; `t` is n + `round`. ln 2 is in two parts: n times the first is exact.
template <class B, LaneType L>
struct ReducedLn2 {
  Num<B, L> r, t;
};
template <class B, LaneType L>
SMOLDER_INLINE ReducedLn2<B, L> reduce_ln2(Num<B, L> x, double round) {
  constexpr double kHigh = L == LaneType::kF32 ? 0x1.62e4p-1 : 0x1.62e42fefa38p-1;
  constexpr double kLow = L == LaneType::kF32 ? 0x1.7f7d1cp-20 : 0x1.ef35793c7673p-45;
  auto t = fma(x, std::numbers::log2e, round);
  auto n = t - round;
  return {fma(n, -kLow, fma(n, -kHigh, x)), t};
}

/// x, or the bound it lies beyond; nan stays.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> at_least(Num<B, L> x, double bound) {
  return select(x < bound, bound, x);
}
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> at_most(Num<B, L> x, double bound) {
  return select(x > bound, bound, x);
}

/// The exact error of the rounded sum `sum` of x and y: in any order, or for |x| >= |y| (or x = 0).
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> sum_error(Num<B, L> x, Num<B, L> y, Num<B, L> sum) {
  auto part = sum - x;
  return (x - (sum - part)) + (y - part);
}
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> ordered_sum_error(Num<B, L> x, Num<B, L> y, Num<B, L> sum) {
  return (x - sum) + y;
}

/// A logarithm `r` of positive finite numbers, completed.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> log_specials(Num<B, L> x, Num<B, L> r) {
  r = select(x > 0.0, r, select(x == 0.0, like(x, -kInf), kNan));
  return select_seldom(x == kInf, x, r);
}

/// 1 / (1 + e^-x), where `e` is e^-|x|. The quotient takes one correction for the rounding of 1 + e, which counts
/// where x < 0.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> sigmoid_from(Num<B, L> x, Num<B, L> e) {
  auto top = select(x < 0.0, e, like(x, 1.0));
  auto y = top / (e + 1.0);
  auto residual = fma(-y, e, top - y);
  return fma(residual, 1.0 - y, y);
}

/// x^y as C and torch have it, given |x|^y for finite nonzero x and finite y.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> pow_specials(Num<B, L> x, Num<B, L> y, Num<B, L> magnitude) {
  auto ax = abs(x);
  auto infinite = ax == kInf;
  magnitude = select(x == 0.0, select(y < 0.0, like(x, kInf), 0.0), magnitude);
  magnitude = select_seldom(infinite, select(y < 0.0, like(x, 0.0), kInf), magnitude);
  // |y| infinite: 0 or infinity as |x| lies on the side of 1, at 1 it is 1.
  auto shrinks = (ax < 1.0) ^ (y < 0.0);
  auto limit = select(ax == 1.0, like(x, 1.0), select(shrinks, like(x, 0.0), kInf));
  magnitude = select_seldom(abs(y) == kInf, limit, magnitude);
  auto whole = trunc(y) == y;
  auto half = y * 0.5;
  auto odd = whole & (trunc(half) != half);
  auto result = select(odd & (as_int(x) < 0), -magnitude, magnitude);
  result = select((x < 0.0) & !whole & !infinite, kNan, result);
  result = select_seldom((x != x) | (y != y), like(x, kNan), result);
  return select((x == 1.0) | (y == 0.0), 1.0, result);
}

}  // namespace smolder::ir::scalar::detail
