// The loop of every primitive for one compute type. Instantiated in a file a type: this is where the time to
// compile the CPU kernels goes.
#pragma once

#include <array>
#include <utility>

#include "smolder/eager/cpu/blocks.h"
#include "smolder/eager/cpu/lanes.h"

namespace smolder::eager::cpu {

/// Loops by primitive; null where the primitive does not take the dtype.
using BlockTable = std::array<BlockFn, scalar::kNumPrimitives>;

/// Dtype of operand `i` of a primitive that computes in D.
constexpr DType operand_dtype(Primitive p, DType d, size_t i) {
  return p == Primitive::kWhere && i == 0 ? DType::kBool : d;
}

template <Primitive P, DType D, size_t... I>
void run_block(const void* const* in, void* out, int64_t n, std::index_sequence<I...>) {
  using B = Lanes<D>;
  constexpr DType kResult = scalar::info(P).result_dtype(D);
  for_each_pack<B::kLanes, itemsize(kResult), itemsize(operand_dtype(P, D, I))...>(
      in, out, n, [](const auto& from, void* to) {
        B b;
        store<kResult>(to, apply<P, D>(b, load<operand_dtype(P, D, I)>(b, from[I])...));
      });
}

template <Primitive P, DType D>
void block(const void* const* in, void* out, int64_t n) {
  run_block<P, D>(in, out, n, std::make_index_sequence<scalar::info(P).arity>());
}

template <DType D, size_t... P>
constexpr BlockTable make_table(std::index_sequence<P...>) {
  constexpr auto entry = []<size_t kIndex>() -> BlockFn {
    constexpr auto kPrimitive = static_cast<Primitive>(kIndex);
    if constexpr (scalar::info(kPrimitive).takes(D)) {
      return block<kPrimitive, D>;
    } else {
      return nullptr;
    }
  };
  return { entry.template operator()<P>()... };
}

template <DType D>
inline constexpr BlockTable kBlockTable = make_table<D>(std::make_index_sequence<scalar::kNumPrimitives>());

extern const BlockTable kBoolBlocks, kUInt8Blocks, kInt32Blocks, kInt64Blocks, kFloat32Blocks, kFloat64Blocks;

}  // namespace smolder::eager::cpu
