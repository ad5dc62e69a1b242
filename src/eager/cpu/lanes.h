// How the block loops go through arrays: N elements at a time, the last few through padded buffers, so that the
// arithmetic is written (and compiled) once and every element takes the same path.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "smolder/core/dtype.h"
#include "smolder/ir/scalar/emit.h"
#include "smolder/ir/scalar/lane_builder.h"

namespace smolder::eager::cpu {

namespace scalar = ir::scalar;
using scalar::Primitive;
using scalar::PrimitiveInfo;

/// Lanes that arithmetic on a dtype is done in: two registers of 32 bytes, one for bytes. Conditions are as wide as
/// what they select.
template <DType D>
using Lanes = scalar::LaneBuilder<(itemsize(compute_type(D)) == 1 ? 32 : 64 / itemsize(compute_type(D))),
                                  scalar::int_lane(scalar::storage_lane(compute_type(D)))>;

/// N elements of dtype D from memory, in register form.
template <DType D, class B>
SMOLDER_INLINE scalar::Reg<B, D> load(B& b, const void* from) {
  constexpr auto kLane = scalar::storage_lane(D);
  return scalar::from_storage<D>(scalar::Num<B, kLane>{&b, B::template load<kLane>(from)});
}
/// And back; halves must be rounded.
template <DType D, class B>
SMOLDER_INLINE void store(void* to, scalar::Reg<B, D> x) {
  B::template store<scalar::storage_lane(D)>(to, scalar::to_storage<D>(x).v);
}

/// The primitive on register values of dtype D, rounded to its result's dtype.
template <Primitive P, DType D, class B, class... Operands>
SMOLDER_INLINE auto apply(B& b, Operands... x) {
  return scalar::Reg<B, scalar::info(P).result_dtype(D)>{&b, scalar::emit<P, D>(b, x.v...)};
}

/// Calls `body(in, out)` for every `N` elements of the arrays, whose elements have the given sizes. The last ones,
/// fewer than N, are padded with zeros.
template <int N, size_t kOut, size_t... kIn, class F>
SMOLDER_INLINE void for_each_pack(const void* const* in, void* out, int64_t n, F body) {
  constexpr size_t kArity = sizeof...(kIn);
  constexpr std::array<size_t, kArity> kSizes = {kIn...};
  const int64_t whole = n / N * N;
  alignas(64) char padded[kArity][N * sizeof(double)];
  alignas(64) char result[N * sizeof(double)];
  for (int64_t i = 0; i < n; i += N) {
    std::array<const void*, kArity> from;
    for (size_t k = 0; k < kArity; ++k) from[k] = static_cast<const char*>(in[k]) + i * kSizes[k];
    void* to = static_cast<char*>(out) + i * kOut;
    if (i < whole) [[likely]] {
      body(from, to);
    } else {
      for (size_t k = 0; k < kArity; ++k) {
        std::memset(padded[k], 0, sizeof(padded[k]));
        std::memcpy(padded[k], from[k], (n - i) * kSizes[k]);
        from[k] = padded[k];
      }
      body(from, result);
      std::memcpy(to, result, (n - i) * kOut);
    }
  }
}

}  // namespace smolder::eager::cpu
