//! Item: some bytes, as many as lie side by side at both ends, at most 16.
//@ kCopy
struct CopyArguments {
  const Item* from;
  Item* to;
  i64 n, rank;
  AxisWords extents, from_strides, to_strides;
  GUARD
};
// One item to many places, side by side.
struct RepeatArguments {
  const Item* from;
  Item* to;
  i64 n;
};
KERNEL(repeat_item, RepeatArguments) {
  constexpr int kPack = 16 / sizeof(Item);
  Pack<Item, kPack> pack;
#pragma unroll
  for (int k = 0; k < kPack; ++k) pack.x[k] = *a.from;
  const i64 first = static_cast<i64>(blockIdx.x) * (4 * blockDim.x) + threadIdx.x;
  const bool whole = from_address(a.to) % 16 == 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const i64 i = (first + k * static_cast<i64>(blockDim.x)) * kPack;
    if (whole && i + kPack <= a.n) {
      store_whole(a.to + i, pack);
    } else {
      for (i64 j = i; j < i + kPack && j < a.n; ++j) a.to[j] = pack.x[0];
    }
  }
}
KERNEL(copy_items, CopyArguments) {
  LOOK;
  UNLESS_FAILED;
  const i64 first = static_cast<i64>(blockIdx.x) * (4 * blockDim.x) + threadIdx.x;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const i64 i = first + k * static_cast<i64>(blockDim.x);
    if (i < a.n) {
      a.to[offset_at(static_cast<u64>(i), a.rank, a.extents, a.to_strides)] =
          a.from[offset_at(static_cast<u64>(i), a.rank, a.extents, a.from_strides)];
    }
  }
}
