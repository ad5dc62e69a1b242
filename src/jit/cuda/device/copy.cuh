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
// A table of copies of rows of items that lie side by side. Copy i has the blocks from ends[i - 1] up to ends[i].
struct RowCopiesArguments {
  i64 count;
  AxisWords from, to;                    // addresses
  AxisWords items, lengths;              // of all rows, of each
  AxisWords from_steps, to_steps, ends;  // from row to row
};
KERNEL(copy_rows, RowCopiesArguments) {
  constexpr int kEach = 4;
  const i64 block = blockIdx.x;
  int which = 0;
#pragma unroll
  for (int step = 32; step > 0; step /= 2) {
    if (which + step < a.count && a.ends[which + step - 1] <= block) which += step;
  }
  const Item* const from = reinterpret_cast<const Item*>(a.from[which]);
  Item* const to = reinterpret_cast<Item*>(a.to[which]);
  const u32 items = static_cast<u32>(a.items[which]), length = static_cast<u32>(a.lengths[which]);
  const i64 from_step = a.from_steps[which], to_step = a.to_steps[which];
  const u32 first = static_cast<u32>(block - (which > 0 ? a.ends[which - 1] : 0)) * (kEach * blockDim.x) + threadIdx.x;
  Item held[kEach];
  i64 places[kEach];
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const u32 i = first + k * blockDim.x, row = i / length, column = i - row * length;
    places[k] = row * to_step + column;
    if (i < items) held[k] = from[row * from_step + column];
  }
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    if (first + k * blockDim.x < items) to[places[k]] = held[k];
  }
}
