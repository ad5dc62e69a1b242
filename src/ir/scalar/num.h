// Infix notation for scalar arithmetic: `Num` holds a builder's value and makes each C++ operator the builder's
// operation, so that a formula reads as one. A plain number beside a `Num` is a constant of its lane type.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "smolder/ir/scalar/builder.h"

// Formulas are built of many one-line layers; on a builder that computes as it goes, each must vanish.
// A file that only records them, as a code generator does, may define this as `inline` first: it compiles faster.
#ifndef SMOLDER_INLINE
#define SMOLDER_INLINE [[gnu::always_inline]] inline
#endif

namespace smolder::ir::scalar {

/// A value of lane type `L` on builder `B`. Comparisons of integers are signed; `ult` and `ule` are not.
template <class B, LaneType L>
struct Num {
  B* b;
  Value<B, L> v;
};

template <class B>
using F32 = Num<B, LaneType::kF32>;
template <class B>
using F64 = Num<B, LaneType::kF64>;
template <class B>
using I1 = Num<B, LaneType::kI1>;
template <class B>
using I8 = Num<B, LaneType::kI8>;
template <class B>
using I16 = Num<B, LaneType::kI16>;
template <class B>
using I32 = Num<B, LaneType::kI32>;
template <class B>
using I64 = Num<B, LaneType::kI64>;

/// The C++ type that constants of a lane type are written in.
template <LaneType L>
using Literal = std::conditional_t<is_float(L), double, int64_t>;

template <LaneType L, class B>
SMOLDER_INLINE Num<B, L> constant(B& b, Literal<L> c) {
  return {&b, b.template constant<L>(c)};
}
/// A constant beside `x`.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> like(Num<B, L> x, Literal<L> c) {
  return constant<L>(*x.b, c);
}

// A binary operator takes two values, or a value and a number on either side.
#define SMOLDER_BINARY(name, result, constraint, expression)                 \
  template <class B, LaneType L>                                             \
  SMOLDER_INLINE Num<B, result> name(Num<B, L> x, Num<B, L> y) constraint {  \
    return {x.b, expression};                                                \
  }                                                                          \
  template <class B, LaneType L>                                             \
  SMOLDER_INLINE Num<B, result> name(Num<B, L> x, Literal<L> y) constraint { \
    return name(x, like(x, y));                                              \
  }                                                                          \
  template <class B, LaneType L>                                             \
  SMOLDER_INLINE Num<B, result> name(Literal<L> x, Num<B, L> y) constraint { \
    return name(like(y, x), y);                                              \
  }
#define SMOLDER_FLOAT requires(is_float(L))
#define SMOLDER_INT requires(!is_float(L))

SMOLDER_BINARY(operator+, L, SMOLDER_FLOAT, x.b->fadd(x.v, y.v))
SMOLDER_BINARY(operator-, L, SMOLDER_FLOAT, x.b->fsub(x.v, y.v))
SMOLDER_BINARY(operator*, L, SMOLDER_FLOAT, x.b->fmul(x.v, y.v))
SMOLDER_BINARY(operator/, L, SMOLDER_FLOAT, x.b->fdiv(x.v, y.v))
SMOLDER_BINARY(operator==, LaneType::kI1, SMOLDER_FLOAT, x.b->feq(x.v, y.v))
SMOLDER_BINARY(operator!=, LaneType::kI1, SMOLDER_FLOAT, x.b->fne(x.v, y.v))
SMOLDER_BINARY(operator<, LaneType::kI1, SMOLDER_FLOAT, x.b->flt(x.v, y.v))
SMOLDER_BINARY(operator<=, LaneType::kI1, SMOLDER_FLOAT, x.b->fle(x.v, y.v))
SMOLDER_BINARY(operator>, LaneType::kI1, SMOLDER_FLOAT, x.b->flt(y.v, x.v))
SMOLDER_BINARY(operator>=, LaneType::kI1, SMOLDER_FLOAT, x.b->fle(y.v, x.v))

SMOLDER_BINARY(operator+, L, SMOLDER_INT, x.b->iadd(x.v, y.v))
SMOLDER_BINARY(operator-, L, SMOLDER_INT, x.b->isub(x.v, y.v))
SMOLDER_BINARY(operator*, L, SMOLDER_INT, x.b->imul(x.v, y.v))
SMOLDER_BINARY(operator&, L, SMOLDER_INT, x.b->and_(x.v, y.v))
SMOLDER_BINARY(operator|, L, SMOLDER_INT, x.b->or_(x.v, y.v))
SMOLDER_BINARY(operator^, L, SMOLDER_INT, x.b->xor_(x.v, y.v))
SMOLDER_BINARY(operator==, LaneType::kI1, SMOLDER_INT, x.b->ieq(x.v, y.v))
SMOLDER_BINARY(operator!=, LaneType::kI1, SMOLDER_INT, x.b->ine(x.v, y.v))
SMOLDER_BINARY(operator<, LaneType::kI1, SMOLDER_INT, x.b->slt(x.v, y.v))
SMOLDER_BINARY(operator<=, LaneType::kI1, SMOLDER_INT, x.b->sle(x.v, y.v))
SMOLDER_BINARY(operator>, LaneType::kI1, SMOLDER_INT, x.b->slt(y.v, x.v))
SMOLDER_BINARY(operator>=, LaneType::kI1, SMOLDER_INT, x.b->sle(y.v, x.v))
SMOLDER_BINARY(ult, LaneType::kI1, SMOLDER_INT, x.b->ult(x.v, y.v))
SMOLDER_BINARY(ule, LaneType::kI1, SMOLDER_INT, x.b->ule(x.v, y.v))

#undef SMOLDER_BINARY
#undef SMOLDER_FLOAT
#undef SMOLDER_INT

#define SMOLDER_UNARY(name, constraint, expression)       \
  template <class B, LaneType L>                          \
  SMOLDER_INLINE Num<B, L> name(Num<B, L> x) constraint { \
    return {x.b, x.b->expression};                        \
  }
SMOLDER_UNARY(operator-, requires(is_float(L)), fneg(x.v))
SMOLDER_UNARY(operator-, requires(!is_float(L)), isub(x.b->template constant<L>(0), x.v))
SMOLDER_UNARY(operator~, requires(!is_float(L)), not_(x.v))
SMOLDER_UNARY(operator!, requires(L == LaneType::kI1), not_(x.v))
SMOLDER_UNARY(abs, requires(is_float(L)), fabs(x.v))
SMOLDER_UNARY(sqrt, requires(is_float(L)), sqrt(x.v))
SMOLDER_UNARY(rint, requires(is_float(L)), rint(x.v))
SMOLDER_UNARY(floor, requires(is_float(L)), floor(x.v))
SMOLDER_UNARY(ceil, requires(is_float(L)), ceil(x.v))
SMOLDER_UNARY(trunc, requires(is_float(L)), trunc(x.v))
#undef SMOLDER_UNARY

template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> operator<<(Num<B, L> x, int n) {
  return {x.b, x.b->shl(x.v, n)};
}
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> operator<<(Num<B, L> x, Num<B, L> n) {
  return {x.b, x.b->shl(x.v, n.v)};
}
/// Shifts right: `lshr` brings in zeros, `ashr` copies of the sign.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> lshr(Num<B, L> x, int n) {
  return {x.b, x.b->lshr(x.v, n)};
}
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> lshr(Num<B, L> x, Num<B, L> n) {
  return {x.b, x.b->lshr(x.v, n.v)};
}
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> ashr(Num<B, L> x, int n) {
  return {x.b, x.b->ashr(x.v, n)};
}
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> ashr(Num<B, L> x, Num<B, L> n) {
  return {x.b, x.b->ashr(x.v, n.v)};
}

namespace detail {
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> lift(Num<B, L> x, B*) {
  return x;
}
template <LaneType L, class B>
SMOLDER_INLINE Num<B, L> lift_to(Num<B, L> x, B*) {
  return x;
}
template <LaneType L, class B>
SMOLDER_INLINE Num<B, L> lift_to(Literal<L> x, B* b) {
  return constant<L>(*b, x);
}
}  // namespace detail

/// x * y + z, rounded once.
template <class B, LaneType L, class Y, class Z>
SMOLDER_INLINE Num<B, L> fma(Num<B, L> x, Y y, Z z) {
  return {x.b, x.b->fma(x.v, detail::lift_to<L>(y, x.b).v, detail::lift_to<L>(z, x.b).v)};
}
/// c ? x : y; one of x and y may be a number.
template <class B, LaneType L, class Y>
SMOLDER_INLINE Num<B, L> select(I1<B> c, Num<B, L> x, Y y) {
  return {x.b, x.b->template select<L>(c.v, x.v, detail::lift_to<L>(y, x.b).v)};
}
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> select(I1<B> c, Literal<L> x, Num<B, L> y) {
  return select(c, like(y, x), y);
}
/// c ? rare() : common; `rare` returns an array of two.
template <class B, LaneType L, class Rare>
SMOLDER_INLINE std::array<Num<B, L>, 2> select_rare(I1<B> c, std::array<Num<B, L>, 2> common, Rare&& rare) {
  B& b = *c.b;
  auto raw = b.template select_rare<L>(c.v, std::array<Value<B, L>, 2>{common[0].v, common[1].v}, [&rare] {
    std::array<Num<B, L>, 2> r = rare();
    return std::array<Value<B, L>, 2>{r[0].v, r[1].v};
  });
  return {Num<B, L>{&b, raw[0]}, Num<B, L>{&b, raw[1]}};
}
/// c ? rare : common, where a builder may leave it to the caller to see that `c` came up in any lane.
template <class B, LaneType L, class Common>
SMOLDER_INLINE Num<B, L> select_seldom(I1<B> c, Num<B, L> rare, Common common) {
  auto usual = detail::lift_to<L>(common, c.b);
  if constexpr (requires { c.b->template select_seldom<L>(c.v, rare.v, usual.v); }) {
    return {c.b, c.b->template select_seldom<L>(c.v, rare.v, usual.v)};
  } else {
    return select(c, rare, usual);
  }
}

/// Reinterprets the bits as the lane type of the same width and the other kind.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, int_lane(L)> as_int(Num<B, L> x) {
  return {x.b, x.b->template bitcast<int_lane(L)>(x.v)};
}
template <class B, LaneType L>
SMOLDER_INLINE Num<B, float_lane(L)> as_float(Num<B, L> x) {
  return {x.b, x.b->template bitcast<float_lane(L)>(x.v)};
}

#define SMOLDER_CONVERT(name)                   \
  template <LaneType To, class B, LaneType L>   \
  SMOLDER_INLINE Num<B, To> name(Num<B, L> x) { \
    return {x.b, x.b->template name<To>(x.v)};  \
  }
SMOLDER_CONVERT(sitofp)
SMOLDER_CONVERT(fptosi)
SMOLDER_CONVERT(fptosi_in_range)
SMOLDER_CONVERT(zext)
SMOLDER_CONVERT(sext)
SMOLDER_CONVERT(itrunc)
#undef SMOLDER_CONVERT

template <class B>
SMOLDER_INLINE F64<B> extend(F32<B> x) {
  return {x.b, x.b->template fpext<LaneType::kF64>(x.v)};
}
template <class B>
SMOLDER_INLINE F32<B> narrow(F64<B> x) {
  return {x.b, x.b->template fptrunc<LaneType::kF32>(x.v)};
}

/// Horner's rule, one fma a coefficient, highest power first: c[0] x^(n-1) + ... + c[n-1].
template <class B, LaneType L, size_t N>
SMOLDER_INLINE Num<B, L> polynomial(Num<B, L> x, const double (&c)[N]) {
  Num<B, L> sum = like(x, c[0]);
  for (size_t i = 1; i < N; ++i) sum = fma(sum, x, c[i]);
  return sum;
}

/// |magnitude| with the sign of `sign`, both of one float type.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> copysign(Num<B, L> magnitude, Num<B, L> sign) {
  constexpr int64_t kSign = int64_t{-1} << (lane_bits(L) - 1);
  return as_float(as_int(abs(magnitude)) | (as_int(sign) & kSign));
}
/// As copysign, for a magnitude whose sign bit is clear.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> with_sign(Num<B, L> magnitude, Num<B, L> sign) {
  constexpr int64_t kSign = int64_t{-1} << (lane_bits(L) - 1);
  return as_float(as_int(magnitude) | (as_int(sign) & kSign));
}

}  // namespace smolder::ir::scalar
