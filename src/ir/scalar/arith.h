// Arithmetic of the primitives that need no series: sums, products, division in its torch flavours, extremes,
// comparisons, bits.
#pragma once

#include <limits>

#include "smolder/ir/scalar/convert.h"

namespace smolder::ir::scalar {

/// Integers of 8 bits are uint8, the wider ones signed.
template <LaneType L>
inline constexpr bool kUnsigned = L == LaneType::kI8;

// -- integer division: truncating, by zero 0, smallest / -1 wraps

namespace detail {
/// Quotient toward zero of 32-bit numbers, by way of float64: x / y is at least 1/|x| of itself away from the next
/// integer, so the rounded quotient truncates right. There is no vector division of integers.
template <class B>
SMOLDER_INLINE I32<B> quotient(I32<B> x, I32<B> y) {
  auto q = fptosi_in_range<LaneType::kI32>(sitofp<LaneType::kF64>(x) / sitofp<LaneType::kF64>(y));
  return select(y == 0, 0, select(y == -1, -x, q));
}
template <class B>
SMOLDER_INLINE I64<B> quotient(I64<B> x, I64<B> y) {
  auto trivial = (y == 0) | (y == -1);
  I64<B> q{x.b, x.b->sdiv(x.v, select(trivial, 1, y).v)};
  return select(y == 0, 0, select(y == -1, -x, q));
}
/// 8-bit operands, zero-extended.
template <class B>
SMOLDER_INLINE I32<B> quotient_u8(I32<B> x, I32<B> y) {
  auto q = fptosi_in_range<LaneType::kI32>(sitofp<LaneType::kF32>(x) / sitofp<LaneType::kF32>(y));
  return select(y == 0, 0, q);
}
}  // namespace detail

/// Integer `x // y`, toward minus infinity; 0 where y is 0.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> floor_div(Num<B, L> x, Num<B, L> y)
  requires(!is_float(L))
{
  if constexpr (kUnsigned<L>) {
    return itrunc<L>(detail::quotient_u8(zext<LaneType::kI32>(x), zext<LaneType::kI32>(y)));
  } else {
    auto q = detail::quotient(x, y);
    auto r = x - q * y;
    auto down = (r != 0) & ((r ^ y) < 0) & (y != 0);
    return q + sext<L>(down);
  }
}

/// Integer remainder with the sign of the dividend; 0 where y is 0.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> fmod(Num<B, L> x, Num<B, L> y)
  requires(!is_float(L))
{
  if constexpr (kUnsigned<L>) {
    auto a = zext<LaneType::kI32>(x), b = zext<LaneType::kI32>(y);
    return itrunc<L>(select(b == 0, 0, a - detail::quotient_u8(a, b) * b));
  } else {
    return select(y == 0, 0, x - detail::quotient(x, y) * y);
  }
}

/// Integer remainder with the sign of the divisor; 0 where y is 0.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> remainder(Num<B, L> x, Num<B, L> y)
  requires(!is_float(L))
{
  auto r = fmod(x, y);
  if constexpr (kUnsigned<L>) {
    return r;
  } else {
    return select((r != 0) & ((r ^ y) < 0), r + y, r);
  }
}

// -- integer powers

/// x ** n modulo 2^width. A negative n gives what the rational power truncates to: 1 and -1 keep their powers,
/// all else 0 (0 too, as torch).
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> pow(Num<B, L> x, Num<B, L> n)
  requires(!is_float(L))
{
  constexpr int kBits = lane_bits(L);
  auto square_and_multiply = [n](Num<B, L> result, Num<B, L> square, int from, int to) {
    for (int bit = from; bit < to; ++bit) {
      result = select((n & (int64_t{1} << bit)) != 0, result * square, result);
      square = square * square;
    }
    return std::array{result, square};
  };
  if constexpr (kUnsigned<L>) {
    return square_and_multiply(like(x, 1), x, 0, kBits)[0];
  } else {
    constexpr int kCommonBits = 6;
    auto common = square_and_multiply(like(x, 1), x, 0, kCommonBits);
    auto r = select_rare(n >= int64_t{1} << kCommonBits, common,
                         [&] { return square_and_multiply(common[0], common[1], kCommonBits, kBits - 1); })[0];
    auto odd = (n & 1) != 0;
    auto negative = select(x == 1, 1, select(x == -1, select(odd, like(x, -1), 1), like(x, 0)));
    return select(n < 0, negative, r);
  }
}

// -- shifts: an amount outside [0, width) shifts everything out

template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> shift_left(Num<B, L> x, Num<B, L> n) {
  auto in = ult(n, lane_bits(L));
  return select(in, x << select(in, n, 0), 0);
}
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> shift_right(Num<B, L> x, Num<B, L> n) {
  auto in = ult(n, lane_bits(L));
  if constexpr (kUnsigned<L>) {
    return select(in, lshr(x, select(in, n, 0)), 0);
  } else {
    return ashr(x, select(in, n, lane_bits(L) - 1));
  }
}

// -- float division

namespace detail {
/// One step of long division of r >= 0 by y > 0, where r / y is below 2^precision: exact, since the quotient is
/// at most one too large and both candidates for the remainder are multiples of an ulp of r or y below y.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> fmod_step(Num<B, L> r, Num<B, L> y) {
  auto next = fma(-trunc(r / y), y, r);
  return select(next < 0.0, next + y, next);
}

/// r mod y for a normal y, by `steps` steps, each with the largest y * 2^k that leaves a quotient a step can hold.
template <class B, LaneType L>
inline Num<B, L> long_fmod(Num<B, L> r, Num<B, L> y, int steps) {
  constexpr int kFraction = L == LaneType::kF32 ? 23 : 52;
  auto exponent = [](Num<B, L> v) { return lshr(as_int(v), kFraction); };
  for (int i = 0; i < steps; ++i) {
    auto excess = exponent(r) - exponent(y) - (kFraction - 1);
    auto k = select(excess > 0, excess, 0);
    r = fmod_step(r, as_float(as_int(y) + (k << kFraction)));
  }
  return r;
}
}  // namespace detail

/// Remainder with the sign of the dividend, exact; nan where y is 0 or x infinite.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> fmod(Num<B, L> x, Num<B, L> y)
  requires(is_float(L))
{
  constexpr bool k32 = L == LaneType::kF32;
  constexpr double kLargeQuotient = k32 ? 0x1p23 : 0x1p52;
  // Small divisors are scaled into the normal range; the first stage then divides by y * kScale, the second by y.
  constexpr double kScale = k32 ? 0x1p24 : 0x1p54, kSmall = k32 ? 0x1p-102 : 0x1p-968;
  constexpr int kSteps = k32 ? 11 : 40, kScaledSteps = 2;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

  auto ax = abs(x), ay = abs(y);
  auto common = select(ax < ay, ax, detail::fmod_step(ax, ay));
  auto r = select_rare(ax / ay >= kLargeQuotient, std::array{common, common}, [&] {
    auto small = ay < kSmall;
    auto divisor = select(small, ay * kScale, ay);
    auto rest = detail::long_fmod(ax, divisor, kSteps);
    auto scaled = detail::long_fmod(rest * kScale, divisor, kScaledSteps) * (1 / kScale);
    rest = select(small, scaled, rest);
    return std::array{rest, rest};
  })[0];
  r = select((ax == kInf) | (ay == 0.0), kNan, r);
  return copysign(r, x);
}

/// Remainder with the sign of the divisor, as Python's %.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> remainder(Num<B, L> x, Num<B, L> y)
  requires(is_float(L))
{
  auto r = fmod(x, y);
  return select((r != 0.0) & ((r < 0.0) ^ (y < 0.0)), r + y, r);
}

/// x // y as torch and Python: the floor of the exact quotient where float can hold it; x / y where y is 0.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> floor_div(Num<B, L> x, Num<B, L> y)
  requires(is_float(L))
{
  auto r = fmod(x, y);
  auto q = (x - r) / y;
  q = select((r != 0.0) & ((r < 0.0) ^ (y < 0.0)), q - 1.0, q);
  auto down = floor(q);
  auto whole = select(q - down > 0.5, down + 1.0, down);
  auto ratio = x / y;
  auto result = select(q == 0.0, copysign(like(q, 0.0), ratio), whole);
  return select(y == 0.0, ratio, result);
}

// -- order

template <class B, LaneType L>
SMOLDER_INLINE I1<B> less(Num<B, L> x, Num<B, L> y) {
  if constexpr (L == LaneType::kI1) {
    return (!x) & y;
  } else if constexpr (kUnsigned<L>) {
    return ult(x, y);
  } else {
    return x < y;
  }
}
template <class B, LaneType L>
SMOLDER_INLINE I1<B> less_equal(Num<B, L> x, Num<B, L> y) {
  if constexpr (is_float(L)) {
    return x <= y;
  } else {
    return !less(y, x);
  }
}
template <class B, LaneType L>
SMOLDER_INLINE I1<B> equal(Num<B, L> x, Num<B, L> y) {
  if constexpr (L == LaneType::kI1) {
    return !(x ^ y);
  } else {
    return x == y;
  }
}
template <class B, LaneType L>
SMOLDER_INLINE I1<B> not_equal(Num<B, L> x, Num<B, L> y) {
  if constexpr (L == LaneType::kI1) {
    return x ^ y;
  } else {
    return x != y;
  }
}

/// The larger; nan if either is. Of zeros of both signs, `x`.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> maximum(Num<B, L> x, Num<B, L> y) {
  if constexpr (L == LaneType::kI1) {
    return x | y;
  } else {
    auto larger = select(less(x, y), y, x);
    if constexpr (is_float(L)) return select(y != y, y, larger);
    return larger;
  }
}
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> minimum(Num<B, L> x, Num<B, L> y) {
  if constexpr (L == LaneType::kI1) {
    return x & y;
  } else {
    auto smaller = select(less(y, x), y, x);
    if constexpr (is_float(L)) return select(y != y, y, smaller);
    return smaller;
  }
}

// -- what differs by category

/// For bools: or, and.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> add(Num<B, L> x, Num<B, L> y) {
  if constexpr (L == LaneType::kI1) {
    return x | y;
  } else {
    return x + y;
  }
}
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> multiply(Num<B, L> x, Num<B, L> y) {
  if constexpr (L == LaneType::kI1) {
    return x & y;
  } else {
    return x * y;
  }
}
/// x * y + z, of floats rounded once.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> multiply_add(Num<B, L> x, Num<B, L> y, Num<B, L> z) {
  if constexpr (is_float(L)) {
    return fma(x, y, z);
  } else {
    return x * y + z;
  }
}

template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> magnitude(Num<B, L> x) {
  if constexpr (is_float(L)) {
    return abs(x);
  } else if constexpr (L == LaneType::kI1 || kUnsigned<L>) {
    return x;
  } else {
    return select(x < 0, -x, x);
  }
}
/// 1, 0 or -1; 0 for nan, as torch.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> sign(Num<B, L> x) {
  if constexpr (L == LaneType::kI1) {
    return x;
  } else if constexpr (kUnsigned<L>) {
    return zext<L>(x != 0);
  } else {
    return select(x > 0, like(x, 1), select(x < 0, like(x, -1), 0));
  }
}
/// Keeps nan and -0.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> relu(Num<B, L> x) {
  if constexpr (kUnsigned<L>) {
    return x;
  } else {
    return select(x < 0, 0, x);
  }
}

/// Integers are their own floor, ceiling, rounding and integer part.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> floor(Num<B, L> x)
  requires(!is_float(L))
{
  return x;
}
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> ceil(Num<B, L> x)
  requires(!is_float(L))
{
  return x;
}
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> rint(Num<B, L> x)
  requires(!is_float(L))
{
  return x;
}
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> trunc(Num<B, L> x)
  requires(!is_float(L))
{
  return x;
}

template <class B, LaneType L>
SMOLDER_INLINE I1<B> is_nan(Num<B, L> x) {
  if constexpr (is_float(L)) {
    return x != x;
  } else {
    return constant<LaneType::kI1>(*x.b, 0);
  }
}
template <class B, LaneType L>
SMOLDER_INLINE I1<B> is_inf(Num<B, L> x) {
  if constexpr (is_float(L)) {
    return abs(x) == std::numeric_limits<double>::infinity();
  } else {
    return constant<LaneType::kI1>(*x.b, 0);
  }
}
template <class B, LaneType L>
SMOLDER_INLINE I1<B> is_finite(Num<B, L> x) {
  if constexpr (is_float(L)) {
    return abs(x) < std::numeric_limits<double>::infinity();
  } else {
    return constant<LaneType::kI1>(*x.b, 1);
  }
}

/// Whether x is other than 0; nan is.
template <class B, LaneType L>
SMOLDER_INLINE I1<B> truth(Num<B, L> x) {
  if constexpr (L == LaneType::kI1) {
    return x;
  } else {
    return x != 0;
  }
}

}  // namespace smolder::ir::scalar
