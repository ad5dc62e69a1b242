// Inverse circular functions, one text for both float types.
#pragma once

#include <limits>

#include "smolder/ir/scalar/trig_f32.h"
#include "smolder/ir/scalar/trig_f64.h"

namespace smolder::ir::scalar {

namespace detail {
/// pi/2 - y and pi - y. The constant is a product of two numbers, to twice their precision.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> half_pi_minus(Num<B, L> y) {
  constexpr bool k32 = L == LaneType::kF32;
  return fma(like(y, k32 ? 0x1.ddcb02p-1 : 0x1.b4123e454abfdp-1), k32 ? 0x1.aee9d6p0 : 0x1.d82444c71bcc6p0, -y);
}
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> pi_minus(Num<B, L> y) {
  constexpr bool k32 = L == LaneType::kF32;
  return fma(like(y, k32 ? 0x1.ddcb02p0 : 0x1.b4123e454abfdp0), k32 ? 0x1.aee9d6p0 : 0x1.d82444c71bcc6p0, -y);
}

/// For asin and acos of a = |x|: up to 1/2 the series is in x itself, beyond in z = sqrt((1 - a) / 2), where
/// asin a = pi/2 - 2 asin z.
template <class B, LaneType L>
struct AsinParts {
  I1<B> outer;
  Num<B, L> z, tail;  ///< the series is z + tail

  SMOLDER_INLINE AsinParts(Num<B, L> a, Num<B, L> inner) : outer(a > 0.5), z(a), tail(a) {
    auto s = select(outer, fma(a, -0.5, 0.5), a * a);
    z = select(outer, sqrt(s), inner);
    tail = asin_tail(z, s);
  }
};
}  // namespace detail

template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> atan(Num<B, L> x) {
  auto a = abs(x);
  auto inverted = a > 1.0;
  auto y = detail::atan_unit(select(inverted, 1.0 / a, a));
  return with_sign(select(inverted, detail::half_pi_minus(y), y), x);
}

/// The angle of (x, y); of zeros and infinities as IEEE 754 has it.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> atan2(Num<B, L> y, Num<B, L> x) {
  auto ax = abs(x), ay = abs(y);
  auto steep = ay > ax;
  auto small = select(steep, ax, ay), large = select(steep, ay, ax);
  auto z = select(small == large, select(small == 0.0, small, 1.0), small / large);
  auto r = detail::atan_unit(z);
  r = select(steep, detail::half_pi_minus(r), r);
  r = select(as_int(x) < 0, detail::pi_minus(r), r);
  return select((x != x) | (y != y), std::numeric_limits<double>::quiet_NaN(), with_sign(r, y));
}

template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> asin(Num<B, L> x) {
  auto a = abs(x);
  detail::AsinParts<B, L> p(a, a);
  // pi/2 - 2z is near exact where the result is small; what is left is small.
  auto complement = detail::half_pi_minus(p.z + p.z) - (p.tail + p.tail);
  return with_sign(select(p.outer, complement, p.z + p.tail), x);
}

template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> acos(Num<B, L> x) {
  detail::AsinParts<B, L> p(abs(x), x);
  auto series = p.z + p.tail;
  auto twice = series + series;
  auto complement = detail::half_pi_minus(p.z) - p.tail;
  return select(p.outer, select(x < 0.0, detail::pi_minus(twice), twice), complement);
}

}  // namespace smolder::ir::scalar
