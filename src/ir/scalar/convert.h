// How the dtypes lie in registers and in memory, the halves, and casts.
//
// In a register bool is a condition, a half is the float32 of its value, and an int8 or int16 the int32; in memory bool
// is a byte of 0 or 1, and the others have their own bits. Arithmetic on halves, int8 and int16 is that of the type in
// the register, followed by `round_to`.
#pragma once

#include "smolder/core/dtype.h"
#include "smolder/core/scalar.h"
#include "smolder/ir/scalar/num.h"

namespace smolder::ir::scalar {

/// Lane type of a value of dtype `t` in arithmetic.
constexpr LaneType register_lane(DType t) {
  constexpr LaneType kLanes[] = {LaneType::kI1,  LaneType::kI8,  LaneType::kI32, LaneType::kI32, LaneType::kI32,
                                 LaneType::kI64, LaneType::kF32, LaneType::kF32, LaneType::kF32, LaneType::kF64};
  return kLanes[static_cast<int>(t)];
}
/// Lane type of a value of dtype `t` as it is loaded and stored.
constexpr LaneType storage_lane(DType t) {
  if (t == DType::kBool || t == DType::kInt8) return LaneType::kI8;
  return is_half(t) || t == DType::kInt16 ? LaneType::kI16 : register_lane(t);
}

/// A register value of dtype `D` on builder `B`.
template <class B, DType D>
using Reg = Num<B, register_lane(D)>;

// -- halves: src/core/half.h, bit for bit but for the payload of nan

template <class B>
SMOLDER_INLINE F32<B> float16_to_f32(I16<B> h) {
  if constexpr (requires { h.b->half_to_f32(h.v); }) {
    return {h.b, h.b->half_to_f32(h.v)};
  } else {
    auto wide = zext<LaneType::kI32>(h);
    auto rest = (wide & 0x7fff) << 13;
    auto finite = as_float(rest) * 0x1p112;  // rebiases the exponent, of subnormals too
    auto magnitude = select(rest >= 0x7c00 << 13, rest | 0x7f800000, as_int(finite));
    return as_float(magnitude | ((wide & 0x8000) << 16));
  }
}

template <class B>
SMOLDER_INLINE I16<B> f32_to_float16(F32<B> f) {
  if constexpr (requires { f.b->f32_to_half(f.v); }) {
    return {f.b, f.b->f32_to_half(f.v)};
  } else {
    auto bits = as_int(f);
    auto a = bits & 0x7fffffff;
    auto normal = lshr(a - ((112 << 23) - 0xfff) + (lshr(a, 13) & 1), 13);
    // Below 2^-14, adding 0.5 leaves the rounded multiple of 2^-24 in the low bits.
    auto subnormal = as_int(as_float(a) + 0.5) - 0x3f000000;
    auto r = select(a < 0x38800000, subnormal, normal);
    r = select(a >= 0x477ff000, 0x7c00, r);  // rounds past 65504
    r = select(a > 0x7f800000, (lshr(a, 13) & 0x3ff) | 0x7e00, r);
    return itrunc<LaneType::kI16>(r | (lshr(bits, 16) & 0x8000));
  }
}

template <class B>
SMOLDER_INLINE F32<B> bfloat16_to_f32(I16<B> h) {
  if constexpr (requires { h.b->bf16_to_f32(h.v); }) {
    return {h.b, h.b->bf16_to_f32(h.v)};
  } else {
    return as_float(zext<LaneType::kI32>(h) << 16);
  }
}

/// The nearest bfloat16, as a float32.
template <class B>
SMOLDER_INLINE F32<B> round_to_bfloat16(F32<B> f) {
  auto bits = as_int(f);
  auto rounded = (bits + ((lshr(bits, 16) & 1) + 0x7fff)) & ~int64_t{0xffff};
  return as_float(select(f != f, bits | 0x400000, rounded));
}

/// `exact`: the value is a bfloat16 already, and only its bits are wanted.
template <class B>
SMOLDER_INLINE I16<B> f32_to_bfloat16(F32<B> f, bool exact = false) {
  if constexpr (requires { f.b->f32_to_bf16(f.v); }) {
    return {f.b, f.b->f32_to_bf16(f.v)};
  } else {
    return itrunc<LaneType::kI16>(lshr(as_int(exact ? f : round_to_bfloat16(f)), 16));
  }
}

/// A result as dtype `D` keeps it: rounded to the half, wrapped to int8 or int16, else unchanged.
template <DType D, class T>
SMOLDER_INLINE T round_to(T x) {
  if constexpr (D == DType::kFloat16) {
    return float16_to_f32(f32_to_float16(x));
  } else if constexpr (D == DType::kBFloat16) {
    return round_to_bfloat16(x);
  } else if constexpr (is_small_signed(D)) {
    return sext<LaneType::kI32>(itrunc<storage_lane(D)>(x));
  } else {
    return x;
  }
}

// -- memory

template <DType D, class B>
SMOLDER_INLINE Reg<B, D> from_storage(Num<B, storage_lane(D)> x) {
  if constexpr (D == DType::kBool) {
    return x != 0;
  } else if constexpr (D == DType::kFloat16) {
    return float16_to_f32(x);
  } else if constexpr (D == DType::kBFloat16) {
    return bfloat16_to_f32(x);
  } else if constexpr (is_small_signed(D)) {
    return sext<LaneType::kI32>(x);
  } else {
    return x;
  }
}

/// A half must be rounded already, as every primitive and cast leaves it.
template <DType D, class B>
SMOLDER_INLINE Num<B, storage_lane(D)> to_storage(Reg<B, D> x) {
  if constexpr (D == DType::kBool) {
    return zext<LaneType::kI8>(x);
  } else if constexpr (D == DType::kFloat16) {
    return f32_to_float16(x);
  } else if constexpr (D == DType::kBFloat16) {
    return f32_to_bfloat16(x, true);
  } else if constexpr (is_small_signed(D)) {
    return itrunc<storage_lane(D)>(x);
  } else {
    return x;
  }
}

// -- casts

namespace detail {

/// Truncates, then wraps to 8 or 16 bits as torch does through int64; nan and what int64 cannot hold give 0.
template <LaneType To, class B, LaneType L>
SMOLDER_INLINE Num<B, To> float_to_wrapped(Num<B, L> x) {
  constexpr double kValues = 1 << lane_bits(To);
  auto whole = trunc(x);
  auto low = whole - floor(whole * (1 / kValues)) * kValues;  // exact, in [0, kValues); nan for nan and infinities
  return itrunc<To>(fptosi<LaneType::kI32>(low));
}

template <DType To, class B, LaneType L>
SMOLDER_INLINE Reg<B, To> cast_from_float(Num<B, L> x) {
  if constexpr (To == DType::kBool) {
    return x != 0.0;
  } else if constexpr (To == DType::kUInt8) {
    return float_to_wrapped<LaneType::kI8>(x);
  } else if constexpr (is_small_signed(To)) {
    return sext<LaneType::kI32>(float_to_wrapped<storage_lane(To)>(x));
  } else if constexpr (!is_floating(To)) {
    return fptosi<register_lane(To)>(x);
  } else if constexpr (L == register_lane(To)) {
    return round_to<To>(x);
  } else if constexpr (L == LaneType::kF32) {
    return extend(x);
  } else {
    return round_to<To>(narrow(x));
  }
}

template <DType To, bool kUnsigned, class B, LaneType L>
SMOLDER_INLINE Reg<B, To> cast_from_int(Num<B, L> x) {
  constexpr LaneType kTo = register_lane(To);
  if constexpr (To == DType::kBool) {
    return x != 0;
  } else if constexpr (is_small_signed(To) && L == LaneType::kI8) {
    return round_to<To>(zext<LaneType::kI32>(x));
  } else if constexpr (is_small_signed(To) && L == LaneType::kI64) {
    return round_to<To>(itrunc<LaneType::kI32>(x));
  } else if constexpr (L == kTo) {
    return round_to<To>(x);
  } else if constexpr (is_floating(To)) {
    if constexpr (L == LaneType::kI8) {
      return cast_from_int<To, false>(zext<LaneType::kI32>(x));
    } else {
      return round_to<To>(sitofp<kTo>(x));
    }
  } else if constexpr (lane_bits(kTo) < lane_bits(L)) {
    return itrunc<kTo>(x);
  } else if constexpr (kUnsigned) {
    return zext<kTo>(x);
  } else {
    return sext<kTo>(x);
  }
}

}  // namespace detail

/// A value of dtype `From` as dtype `To`: to bool is `!= 0`; between integers wraps; float to integer truncates
/// and saturates, nan giving 0 (to 8 and 16 bits: wraps); to a float rounds to nearest even, to a half through float32.
template <DType From, DType To, class B>
SMOLDER_INLINE Reg<B, To> cast(Reg<B, From> x) {
  if constexpr (From == To) {
    return x;
  } else if constexpr (From == DType::kBool && is_floating(To)) {
    return select(x, constant<register_lane(To)>(*x.b, 1.0), 0.0);
  } else if constexpr (From == DType::kBool) {
    return zext<register_lane(To)>(x);
  } else if constexpr (From == DType::kFloat16 && To == DType::kFloat32) {
    return x;
  } else if constexpr (From == DType::kBFloat16 && To == DType::kFloat32) {
    return x;
  } else if constexpr (is_floating(From)) {
    return detail::cast_from_float<To>(x);
  } else {
    return detail::cast_from_int < To, From == DType::kUInt8 > (x);
  }
}

}  // namespace smolder::ir::scalar
