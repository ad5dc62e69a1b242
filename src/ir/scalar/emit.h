// Emits a primitive on a builder: the one entry to scalar arithmetic. With the primitive and the dtype known at
// compile time, `emit<P, D>`; at run time `emit_primitive`, which costs a code generator one table of 400 functions.
//
// Values are register values: bool a condition, halves the float32 of their value, int8 and int16 the int32
// (convert.h). They come out rounded, and wrapped.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "smolder/core/error.h"
#include "smolder/core/scalar.h"
#include "smolder/ir/scalar/arith.h"
#include "smolder/ir/scalar/inverse_trig.h"
#include "smolder/ir/scalar/math_f32.h"
#include "smolder/ir/scalar/math_f64.h"
#include "smolder/ir/scalar/primitive.h"

namespace smolder::ir::scalar {

namespace detail {
template <Primitive P>
struct Arithmetic;
#define PRIMITIVE(enumerator, name, arity, dtypes, result, rounding, cost, arithmetic)                   \
  template <>                                                                                            \
  struct Arithmetic<Primitive::enumerator> {                                                             \
    template <class X, class Y, class Z>                                                                 \
    SMOLDER_INLINE static auto apply([[maybe_unused]] X x, [[maybe_unused]] Y y, [[maybe_unused]] Z z) { \
      return arithmetic;                                                                                 \
    }                                                                                                    \
  };
#include "smolder/ir/scalar/primitives.def"
}  // namespace detail

/// Lane type of the result of `P` on operands of dtype `D`.
template <Primitive P, DType D>
inline constexpr LaneType kResultLane = register_lane(info(P).result_dtype(D));

/// Whether what is computed in the compute type may be no value of `D`.
constexpr bool rounds(const PrimitiveInfo& p, DType d) {
  return is_small_signed(d) ? p.result == PrimitiveInfo::kSame : p.rounding == PrimitiveInfo::kRounded;
}

template <Primitive P, DType D, ScalarBuilder B>
  requires(info(P).arity == 1 && info(P).takes(D))
SMOLDER_INLINE Value<B, kResultLane<P, D>> emit(B& b, Value<B, register_lane(D)> x) {
  auto r = detail::Arithmetic<P>::apply(Reg<B, D>{&b, x}, 0, 0);
  if constexpr (rounds(info(P), D)) r = round_to<D>(r);
  return r.v;
}

template <Primitive P, DType D, ScalarBuilder B>
  requires(info(P).arity == 2 && info(P).takes(D))
SMOLDER_INLINE Value<B, kResultLane<P, D>> emit(B& b, Value<B, register_lane(D)> x, Value<B, register_lane(D)> y) {
  auto r = detail::Arithmetic<P>::apply(Reg<B, D>{&b, x}, Reg<B, D>{&b, y}, 0);
  if constexpr (rounds(info(P), D)) r = round_to<D>(r);
  return r.v;
}

/// `where` takes its condition first.
template <Primitive P, DType D, ScalarBuilder B>
  requires(info(P).arity == 3 && info(P).takes(D))
SMOLDER_INLINE Value<B, kResultLane<P, D>> emit(B& b,
                                                Value<B, register_lane(P == Primitive::kWhere ? DType::kBool : D)> x,
                                                Value<B, register_lane(D)> y, Value<B, register_lane(D)> z) {
  constexpr DType kFirst = P == Primitive::kWhere ? DType::kBool : D;
  auto r = detail::Arithmetic<P>::apply(Reg<B, kFirst>{&b, x}, Reg<B, D>{&b, y}, Reg<B, D>{&b, z});
  if constexpr (rounds(info(P), D)) r = round_to<D>(r);
  return r.v;
}

// -- primitive and dtype known at run time

namespace detail {

template <LaneType L, class B>
Value<B, L> unwrap(B& b, typename B::V v) {
  if constexpr (std::is_same_v<typename B::V, Value<B, L>>) {
    return v;
  } else {
    return b.template unwrap<L>(v);
  }
}
template <LaneType L, class B>
typename B::V wrap(B& b, Value<B, L> v) {
  if constexpr (std::is_same_v<typename B::V, Value<B, L>>) {
    return v;
  } else {
    return b.template wrap<L>(v);
  }
}

/// The dtypes that arithmetic is done in: those that are their own `compute_type`.
inline constexpr DType kComputeTypes[] = {DType::kBool,  DType::kUInt8,   DType::kInt32,
                                          DType::kInt64, DType::kFloat32, DType::kFloat64};
inline constexpr int kNumComputeTypes = std::size(kComputeTypes);
constexpr int compute_index(DType t) {
  const DType c = compute_type(t);
  int i = 0;
  while (kComputeTypes[i] != c) ++i;
  return i;
}

template <class B>
using Emitter = typename B::V (*)(B&, const typename B::V*);

template <class B, Primitive P, DType D>
typename B::V emit_erased(B& b, const typename B::V* args) {
  constexpr LaneType kLane = register_lane(D);
  constexpr LaneType kFirst = P == Primitive::kWhere ? LaneType::kI1 : kLane;
  auto x = unwrap<kFirst>(b, args[0]);
  if constexpr (info(P).arity == 1) {
    return wrap<kResultLane<P, D>>(b, emit<P, D>(b, x));
  } else if constexpr (info(P).arity == 2) {
    return wrap<kResultLane<P, D>>(b, emit<P, D>(b, x, unwrap<kLane>(b, args[1])));
  } else {
    return wrap<kResultLane<P, D>>(b, emit<P, D>(b, x, unwrap<kLane>(b, args[1]), unwrap<kLane>(b, args[2])));
  }
}

template <class B, size_t kIndex>
constexpr Emitter<B> emitter() {
  constexpr Primitive kPrimitive = static_cast<Primitive>(kIndex / kNumComputeTypes);
  constexpr DType kDType = kComputeTypes[kIndex % kNumComputeTypes];
  if constexpr (info(kPrimitive).takes(kDType)) {
    return emit_erased<B, kPrimitive, kDType>;
  } else {
    return nullptr;
  }
}
template <class B, size_t... kIndex>
constexpr auto emitters(std::index_sequence<kIndex...>) {
  return std::array<Emitter<B>, sizeof...(kIndex)>{emitter<B, kIndex>()...};
}
template <class B>
inline constexpr auto kEmitters = emitters<B>(std::make_index_sequence<kNumPrimitives * kNumComputeTypes>());

template <DType D, class B>
typename B::V round_erased(B& b, typename B::V v) {
  constexpr LaneType kLane = register_lane(D);
  return wrap<kLane>(b, round_to<D>(Reg<B, D>{&b, unwrap<kLane>(b, v)}).v);
}

template <class B, DType kFrom, DType kTo>
typename B::V cast_erased(B& b, typename B::V v) {
  Reg<B, kFrom> x{&b, unwrap<register_lane(kFrom)>(b, v)};
  return wrap<register_lane(kTo)>(b, cast<kFrom, kTo>(x).v);
}
template <class B>
using Converter = typename B::V (*)(B&, typename B::V);
template <class B, size_t... kIndex>
constexpr auto casters(std::index_sequence<kIndex...>) {
  return std::array<Converter<B>, sizeof...(kIndex)>{
      cast_erased<B, static_cast<DType>(kIndex / kNumDTypes), static_cast<DType>(kIndex % kNumDTypes)>...};
}
template <class B>
inline constexpr auto kCasters = casters<B>(std::make_index_sequence<kNumDTypes * kNumDTypes>());

template <class B, DType D>
typename B::V load_erased(B& b, typename B::V v) {
  return wrap<register_lane(D)>(b, from_storage<D>(Num<B, storage_lane(D)>{&b, unwrap<storage_lane(D)>(b, v)}).v);
}
template <class B, DType D>
typename B::V store_erased(B& b, typename B::V v) {
  return wrap<storage_lane(D)>(b, to_storage<D>(Reg<B, D>{&b, unwrap<register_lane(D)>(b, v)}).v);
}
template <class B, size_t... kIndex>
constexpr auto loaders(std::index_sequence<kIndex...>) {
  return std::array<Converter<B>, sizeof...(kIndex)>{load_erased<B, static_cast<DType>(kIndex)>...};
}
template <class B, size_t... kIndex>
constexpr auto storers(std::index_sequence<kIndex...>) {
  return std::array<Converter<B>, sizeof...(kIndex)>{store_erased<B, static_cast<DType>(kIndex)>...};
}
}  // namespace detail

/// Emits `p` on register values of dtype `dtype`. Throws InternalError when `p` does not take the dtype or the
/// number of operands: what reaches a code generator has been checked.
template <RuntimeBuilder B>
typename B::V emit_primitive(B& b, Primitive p, DType dtype, std::span<const typename B::V> args) {
  auto emitter = detail::kEmitters<B>[static_cast<size_t>(p) * detail::kNumComputeTypes + detail::compute_index(dtype)];
  SMOLDER_CHECK(emitter != nullptr && args.size() == static_cast<size_t>(info(p).arity), InternalError,
                "internal error: primitive ", info(p).name, " on ", args.size(), " operands of ", name(dtype),
                "; please report it");
  typename B::V r = emitter(b, args.data());
  if (!rounds(info(p), dtype)) return r;
  if (dtype == DType::kFloat16) return detail::round_erased<DType::kFloat16>(b, r);
  if (dtype == DType::kBFloat16) return detail::round_erased<DType::kBFloat16>(b, r);
  if (dtype == DType::kInt8) return detail::round_erased<DType::kInt8>(b, r);
  if (dtype == DType::kInt16) return detail::round_erased<DType::kInt16>(b, r);
  return r;
}

/// A register value of dtype `from` as one of dtype `to`.
template <RuntimeBuilder B>
typename B::V emit_cast(B& b, DType from, DType to, typename B::V v) {
  return detail::kCasters<B>[static_cast<size_t>(from) * kNumDTypes + static_cast<size_t>(to)](b, v);
}

/// Turns what was loaded from a tensor of `dtype` (of lane type `storage_lane`) into a register value, and back.
template <RuntimeBuilder B>
typename B::V emit_load(B& b, DType dtype, typename B::V v) {
  static constexpr auto kLoaders = detail::loaders<B>(std::make_index_sequence<kNumDTypes>());
  return kLoaders[static_cast<size_t>(dtype)](b, v);
}
template <RuntimeBuilder B>
typename B::V emit_store(B& b, DType dtype, typename B::V v) {
  static constexpr auto kStorers = detail::storers<B>(std::make_index_sequence<kNumDTypes>());
  return kStorers[static_cast<size_t>(dtype)](b, v);
}

}  // namespace smolder::ir::scalar
