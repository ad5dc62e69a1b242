// The machine that scalar arithmetic is written against. Every elementwise primitive is a straight-line
// program over a `ScalarBuilder`; the eager kernels run it on vectors of the host (lane_builder.h), the
// interpreter on single values (evaluate.h), the code generators make LLVM IR or CUDA C++ of it. All give
// the same bits because each operation below has one meaning:
//
// - floats are IEEE binary32 and binary64, round to nearest even, denormals kept, and each operation
//   rounds once: nothing is contracted or reassociated, and `fma` rounds once where it is written and
//   nowhere else;
// - which nan comes out of an operation on nans (sign, payload) is not defined; that it is nan is;
// - integers wrap.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace smolder::ir::scalar {

/// Type of one lane in a register. Integers have no sign: the operation says how it reads them.
/// `kI1` is a condition. Halves are `kI16` bits in memory and `kF32` in arithmetic.
enum class LaneType : uint8_t { kI1, kI8, kI16, kI32, kI64, kF32, kF64 };

constexpr bool is_float(LaneType t) { return t >= LaneType::kF32; }
/// Bits of a lane: 1, 8, 16, 32 or 64.
constexpr int lane_bits(LaneType t) {
  constexpr int kBits[] = {1, 8, 16, 32, 64, 32, 64};
  return kBits[static_cast<int>(t)];
}
/// The integer lane as wide as `t`, and the float lane as wide as `t` (32 or 64 bits).
constexpr LaneType int_lane(LaneType t) {
  return t == LaneType::kF32 ? LaneType::kI32 : t == LaneType::kF64 ? LaneType::kI64 : t;
}
constexpr LaneType float_lane(LaneType t) {
  return t == LaneType::kI32 ? LaneType::kF32 : t == LaneType::kI64 ? LaneType::kF64 : t;
}

/// The type of a value of lane type `L` in builder `B`. One type for all lanes in a code generator whose values
/// know their own type (`template <LaneType> using Value = llvm::Value*;`), distinct types where C++ itself is
/// the machine; so generic code never deduces a lane type from a value, it names it.
template <class B, LaneType L>
using Value = typename B::template Value<L>;

namespace detail {

template <class B, LaneType L>
concept FloatLane = requires(B& b, Value<B, L> x, Value<B, int_lane(L)> bits) {
  { b.template constant<L>(1.0) } -> std::same_as<Value<B, L>>;  // the double rounded to L
  { b.fadd(x, x) } -> std::same_as<Value<B, L>>;
  { b.fsub(x, x) } -> std::same_as<Value<B, L>>;
  { b.fmul(x, x) } -> std::same_as<Value<B, L>>;
  { b.fdiv(x, x) } -> std::same_as<Value<B, L>>;
  { b.fma(x, x, x) } -> std::same_as<Value<B, L>>;  // x * y + z, rounded once
  { b.fneg(x) } -> std::same_as<Value<B, L>>;       // flips the sign bit, of nan too
  { b.fabs(x) } -> std::same_as<Value<B, L>>;       // clears the sign bit
  { b.sqrt(x) } -> std::same_as<Value<B, L>>;       // correctly rounded
  { b.rint(x) } -> std::same_as<Value<B, L>>;       // to an integer, half to even; -0.25 gives -0
  { b.floor(x) } -> std::same_as<Value<B, L>>;
  { b.ceil(x) } -> std::same_as<Value<B, L>>;
  { b.trunc(x) } -> std::same_as<Value<B, L>>;
  { b.feq(x, x) } -> std::same_as<Value<B, LaneType::kI1>>;  // ordered: false when either is nan
  { b.flt(x, x) } -> std::same_as<Value<B, LaneType::kI1>>;
  { b.fle(x, x) } -> std::same_as<Value<B, LaneType::kI1>>;
  { b.fne(x, x) } -> std::same_as<Value<B, LaneType::kI1>>;  // not feq: true when either is nan
  { b.template bitcast<int_lane(L)>(x) } -> std::same_as<Value<B, int_lane(L)>>;
  { b.template bitcast<L>(bits) } -> std::same_as<Value<B, L>>;
};

template <class B, LaneType L>
concept BitLane = requires(B& b, Value<B, L> x) {
  { b.template constant<L>(int64_t{1}) } -> std::same_as<Value<B, L>>;  // the low bits of the number
  { b.and_(x, x) } -> std::same_as<Value<B, L>>;
  { b.or_(x, x) } -> std::same_as<Value<B, L>>;
  { b.xor_(x, x) } -> std::same_as<Value<B, L>>;
  { b.not_(x) } -> std::same_as<Value<B, L>>;
};

template <class B, LaneType L>
concept IntLane = BitLane<B, L> && requires(B& b, Value<B, L> x) {
  { b.iadd(x, x) } -> std::same_as<Value<B, L>>;
  { b.isub(x, x) } -> std::same_as<Value<B, L>>;
  { b.imul(x, x) } -> std::same_as<Value<B, L>>;  // low half of the product
  // Shifts by a constant, and by a value a lane: the amount is always less than the width.
  { b.shl(x, 1) } -> std::same_as<Value<B, L>>;
  { b.lshr(x, 1) } -> std::same_as<Value<B, L>>;
  { b.ashr(x, 1) } -> std::same_as<Value<B, L>>;
  { b.shl(x, x) } -> std::same_as<Value<B, L>>;
  { b.lshr(x, x) } -> std::same_as<Value<B, L>>;
  { b.ashr(x, x) } -> std::same_as<Value<B, L>>;
  { b.ieq(x, x) } -> std::same_as<Value<B, LaneType::kI1>>;
  { b.ine(x, x) } -> std::same_as<Value<B, LaneType::kI1>>;
  { b.slt(x, x) } -> std::same_as<Value<B, LaneType::kI1>>;  // signed
  { b.sle(x, x) } -> std::same_as<Value<B, LaneType::kI1>>;
  { b.ult(x, x) } -> std::same_as<Value<B, LaneType::kI1>>;  // unsigned
  { b.ule(x, x) } -> std::same_as<Value<B, LaneType::kI1>>;
};

template <class B, LaneType L>
concept Selectable = requires(B& b, Value<B, LaneType::kI1> c, Value<B, L> x, std::array<Value<B, L>, 2> two,
                              std::array<Value<B, L>, 2> (&rare)()) {
  { b.template select<L>(c, x, x) } -> std::same_as<Value<B, L>>;  // c ? first : second
  // c ? rare() : common, lane by lane. A builder may branch around `rare()` when no lane wants it, or emit it
  // straight and select: the bits are equal. Two values at once, since a reduction has a quotient too.
  { b.template select_rare<L>(c, two, rare) } -> std::same_as<std::array<Value<B, L>, 2>>;
};

template <class B, LaneType F, LaneType I>
concept Converts = requires(B& b, Value<B, F> f, Value<B, I> i) {
  { b.template sitofp<F>(i) } -> std::same_as<Value<B, F>>;  // signed, rounded once
  // Toward zero; saturates, nan gives 0. The other form is for values known to be in range: a lane out of
  // range or nan gives any number, without a trap, and is selected away.
  { b.template fptosi<I>(f) } -> std::same_as<Value<B, I>>;
  { b.template fptosi_in_range<I>(f) } -> std::same_as<Value<B, I>>;
};

template <class B, LaneType Narrow, LaneType Wide>
concept Widens = requires(B& b, Value<B, Narrow> n, Value<B, Wide> w) {
  { b.template zext<Wide>(n) } -> std::same_as<Value<B, Wide>>;
  { b.template sext<Wide>(n) } -> std::same_as<Value<B, Wide>>;  // from kI1: 0 or -1
  { b.template itrunc<Narrow>(w) } -> std::same_as<Value<B, Narrow>>;
};

}  // namespace detail

/// A builder of scalar arithmetic; see the head of this file for what its operations mean.
/// `itrunc<kI1>` keeps the lowest bit. `sdiv` and `srem` (64-bit, toward zero) get a divisor that is neither 0
/// nor, under the smallest number, -1. `umulhi` is the high half of the unsigned 64-bit product.
/// `constant<L>` takes a double for a float lane and an int64_t for the others.
/// A builder may also have `half_to_f32`, `f32_to_half`, `bf16_to_f32`, `f32_to_bf16` (kI16 <-> kF32), where
/// the machine rounds to nearest even, keeps denormals and quiets nan; else arith.h composes them.
template <class B>
concept ScalarBuilder =
    detail::FloatLane<B, LaneType::kF32> && detail::FloatLane<B, LaneType::kF64> && detail::BitLane<B, LaneType::kI1> &&
    detail::IntLane<B, LaneType::kI8> && detail::IntLane<B, LaneType::kI16> && detail::IntLane<B, LaneType::kI32> &&
    detail::IntLane<B, LaneType::kI64> && detail::Selectable<B, LaneType::kI1> &&
    detail::Selectable<B, LaneType::kI8> && detail::Selectable<B, LaneType::kI16> &&
    detail::Selectable<B, LaneType::kI32> && detail::Selectable<B, LaneType::kI64> &&
    detail::Selectable<B, LaneType::kF32> && detail::Selectable<B, LaneType::kF64> &&
    detail::Converts<B, LaneType::kF32, LaneType::kI32> && detail::Converts<B, LaneType::kF32, LaneType::kI64> &&
    detail::Converts<B, LaneType::kF64, LaneType::kI32> && detail::Converts<B, LaneType::kF64, LaneType::kI64> &&
    detail::Widens<B, LaneType::kI1, LaneType::kI8> && detail::Widens<B, LaneType::kI1, LaneType::kI16> &&
    detail::Widens<B, LaneType::kI1, LaneType::kI32> && detail::Widens<B, LaneType::kI1, LaneType::kI64> &&
    detail::Widens<B, LaneType::kI8, LaneType::kI16> && detail::Widens<B, LaneType::kI8, LaneType::kI32> &&
    detail::Widens<B, LaneType::kI8, LaneType::kI64> && detail::Widens<B, LaneType::kI16, LaneType::kI32> &&
    detail::Widens<B, LaneType::kI16, LaneType::kI64> && detail::Widens<B, LaneType::kI32, LaneType::kI64> &&
    requires(B& b, Value<B, LaneType::kI32> i, Value<B, LaneType::kI64> l, Value<B, LaneType::kF32> f,
             Value<B, LaneType::kF64> d) {
      { b.umulhi(i, i) } -> std::same_as<Value<B, LaneType::kI32>>;
      { b.sdiv(l, l) } -> std::same_as<Value<B, LaneType::kI64>>;
      { b.srem(l, l) } -> std::same_as<Value<B, LaneType::kI64>>;
      { b.template fpext<LaneType::kF64>(f) } -> std::same_as<Value<B, LaneType::kF64>>;  // exact
      { b.template fptrunc<LaneType::kF32>(d) } -> std::same_as<Value<B, LaneType::kF32>>;
    };

/// A builder that also has one type `V` for a value of any lane type, so that a primitive and its dtype may be
/// known at run time only (emit.h, `emit_primitive`). `V` is either the one `Value` type, or `B` converts with
/// `b.template unwrap<L>(V)` and `b.template wrap<L>(Value<L>)`.
template <class B>
concept RuntimeBuilder = ScalarBuilder<B> && (std::same_as<typename B::V, Value<B, LaneType::kF32>> ||
                                              requires(B& b, typename B::V v, Value<B, LaneType::kF32> f) {
                                                {
                                                  b.template unwrap<LaneType::kF32>(v)
                                                } -> std::same_as<Value<B, LaneType::kF32>>;
                                                { b.template wrap<LaneType::kF32>(f) } -> std::same_as<typename B::V>;
                                              });

}  // namespace smolder::ir::scalar
