// Casts between all dtypes, and the choice of a block loop.
#include "smolder/core/error.h"
#include "smolder/eager/cpu/blocks_impl.h"

namespace smolder::eager::cpu {
namespace {

template <DType From, DType To>
void cast_block(const void* in, void* out, int64_t n) {
  // As many lanes as the wider of the two fills two registers with.
  constexpr size_t kWidth = std::max(itemsize(compute_type(From)), itemsize(compute_type(To)));
  using B =
      scalar::LaneBuilder<kWidth == 1 ? 32 : 64 / kWidth,
                          scalar::int_lane(scalar::storage_lane(compute_type(kWidth == itemsize(From) ? From : To)))>;
  for_each_pack<B::kLanes, itemsize(To), itemsize(From)>(&in, out, n, [](const auto& from, void* to) {
    B b;
    store<To>(to, scalar::cast<From, To>(load<From>(b, from[0])));
  });
}

using CastTable = std::array<std::array<CastFn, kNumDTypes>, kNumDTypes>;

template <size_t From, size_t... To>
constexpr std::array<CastFn, kNumDTypes> casts_from(std::index_sequence<To...>) {
  return {cast_block<static_cast<DType>(From), static_cast<DType>(To)>...};
}
template <size_t... From>
constexpr CastTable all_casts(std::index_sequence<From...>) {
  return {casts_from<From>(std::make_index_sequence<kNumDTypes>())...};
}
constexpr CastTable kCasts = all_casts(std::make_index_sequence<kNumDTypes>());

const BlockTable& blocks_of(DType t) {
  switch (t) {
    case DType::kBool:
      return kBoolBlocks;
    case DType::kUInt8:
      return kUInt8Blocks;
    case DType::kInt32:
      return kInt32Blocks;
    case DType::kInt64:
      return kInt64Blocks;
    case DType::kFloat64:
      return kFloat64Blocks;
    default:
      return kFloat32Blocks;
  }
}

}  // namespace

CastFn cast_fn(DType from, DType to) { return kCasts[static_cast<int>(from)][static_cast<int>(to)]; }

BlockFn block_fn(Primitive p, DType compute) {
  SMOLDER_INVARIANT(!is_half(compute));
  const BlockFn fn = blocks_of(compute)[static_cast<int>(p)];
  SMOLDER_CHECK(fn, NotImplementedError, scalar::info(p).name, " is not defined for ", name(compute));
  return fn;
}

}  // namespace smolder::eager::cpu
