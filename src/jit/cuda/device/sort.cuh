//! The program names Element, Key, kBits (those of a key that count) and kDescending.
//@ kSortKey
constexpr Key kMask = kBits == 8 * sizeof(Key) ? ~Key(0) : (Key(1) << (kBits % (8 * sizeof(Key)))) - 1;
constexpr Key kSign = Key(1) << (kBits - 1);
DEVICE Key bits_of(f16 x) { return x.bits; }
DEVICE Key bits_of(bf16 x) { return x.bits; }
DEVICE Key bits_of(f32 x) { return static_cast<Key>(__float_as_uint(x)); }
DEVICE Key bits_of(f64 x) { return static_cast<Key>(__double_as_longlong(x)); }
DEVICE void from_bits(f16& x, Key bits) { x.bits = static_cast<u16>(bits); }
DEVICE void from_bits(bf16& x, Key bits) { x.bits = static_cast<u16>(bits); }
DEVICE void from_bits(f32& x, Key bits) { x = __uint_as_float(static_cast<u32>(bits)); }
DEVICE void from_bits(f64& x, Key bits) { x = __longlong_as_double(static_cast<i64>(bits)); }
template <class E> struct FirstBit {
  static constexpr Key kFlips = 0;
};
template <> struct FirstBit<i8> {
  static constexpr Key kFlips = kSign;
};
template <> struct FirstBit<i16> {
  static constexpr Key kFlips = kSign;
};
template <> struct FirstBit<i32> {
  static constexpr Key kFlips = kSign;
};
template <> struct FirstBit<i64> {
  static constexpr Key kFlips = kSign;
};

// The unsigned number that orders as an element does: nan is the largest, both zeros are equal.
template <class E> DEVICE Key key_of(E x) {
  Key key;
  if constexpr (Is<E>::kFloat) {
    const Key bits = bits_of(x);
    key = bits == kSign ? kSign : bits & kSign ? bits ^ kMask : bits | kSign;
    if (!(widen(x) == widen(x))) key = kMask;
  } else {
    key = (static_cast<Key>(x) & kMask) ^ FirstBit<E>::kFlips;
  }
  return kDescending ? key ^ kMask : key;
}
// The element of a key, which is that at `from` where several elements have the key.
template <class E> DEVICE E element_of(Key key, const E* from) {
  if (kDescending) key ^= kMask;
  if constexpr (Is<E>::kFloat) {
    if (key == kMask || key == kSign) return *from;
    E x;
    from_bits(x, key & kSign ? key ^ kSign : key ^ kMask);
    return x;
  } else {
    return static_cast<E>(key ^ FirstBit<E>::kFlips);
  }
}

struct SortArguments {
  const Element* x;
  Element* values;
  i64* indices;
  i64 rows, n, limit, step, out_step, rank;
  AxisWords extents, strides, out_strides;
};
DEVICE const Element* row_of(const SortArguments& a, i64 row) {
  return a.x + offset_at(static_cast<u64>(row), a.rank, a.extents, a.strides);
}
DEVICE i64 out_of(const SortArguments& a, i64 row) {
  return offset_at(static_cast<u64>(row), a.rank, a.extents, a.out_strides);
}
//! Rows so short that each element counts those before it.
//@ kSortShort
KERNEL(sort_short_rows, SortArguments) {
  u64 rest = static_cast<u64>(thread_number());
  const i64 at = take_digit(rest, static_cast<u64>(a.n)), row = static_cast<i64>(rest);
  if (row >= a.rows) return;
  const Element* from = row_of(a, row);
  const Element x = from[at * a.step];
  const Key key = key_of(x);
  i64 before = 0;
  for (i64 k = 0; k < a.n; ++k) {
    const Key other = key_of(from[k * a.step]);
    before += other < key || (other == key && k < at);
  }
  if (before >= a.limit) return;
  const i64 to = out_of(a, row) + before * a.out_step;
  a.values[to] = x;
  a.indices[to] = at;
}
//! What follows the sort of a tile.
//@ kSortStore
DEVICE void store_sorted(const SortArguments& a, const Element* from, const Key (&keys)[kItems],
                         const u32 (&positions)[kItems]) {
  const i64 to = out_of(a, blockIdx.x);
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const int at = place_of(k);
    if (at < a.limit) {
      a.values[to + at * a.out_step] = element_of(keys[k], from + positions[k] * a.step);
      a.indices[to + at * a.out_step] = positions[k];
    }
  }
}
//! A block sorts a row in its memory.
//@ kSortTile
KERNEL(sort_rows, SortArguments) {
  __shared__ TileMemory memory;
  const Element* from = row_of(a, blockIdx.x);
  Key keys[kItems];
  u32 positions[kItems];
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const int at = place_of(k);
    keys[k] = at < a.n ? key_of(from[at * a.step]) : ~Key(0);
    positions[k] = static_cast<u32>(at);
  }
  sort_tile(keys, positions, kBits, memory);
  store_sorted(a, from, keys, positions);
}
//! Rows of which only the first few are wanted. Of what each thread comes to first no more than the wanted many can be
//! beyond the last that is wanted: what is not beyond that is little more than what is wanted, mostly, and each element
//! of it counts those before it. Where many are equal a block finds the key of the last digit by digit, then takes what
//! comes before it and, in order, as many of its equals as there is room for; those it sorts.
//@ kSortSelect
DEVICE u32 scan_threads(u32 x, u32* sums, u32& all) {
  const u32 upto = sum_up_to_lane(x);
  if (lane_number() == 31) sums[warp_number()] = upto;
  __syncthreads();
  u32 ahead = 0;
  all = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    if (w < warp_number()) ahead += sums[w];
    all += sums[w];
  }
  __syncthreads();
  return ahead + upto - x;
}
// A key, nearly the least of those that so many of all threads' first keys do not go beyond. One warp.
DEVICE Key bound_of(const Key* firsts, u32 wanted) {
  constexpr int kDigits = 14;  // of two values: as many as tell floats of one size from each other
  Key mine[kWarps], all = kMask, any = 0;
#pragma unroll
  for (int k = 0; k < kWarps; ++k) {
    mine[k] = firsts[k * 32 + lane_number()];
    all &= mine[k];
    any |= mine[k];
  }
#pragma unroll
  for (int by = 16; by > 0; by /= 2) {
    all &= __shfl_sync(kAll, all, lane_number() ^ by);
    any |= __shfl_sync(kAll, any, lane_number() ^ by);
  }
  Key bound = any, differ = all ^ any;
#pragma unroll
  for (int by = 1; by < 8 * static_cast<int>(sizeof(Key)); by *= 2) differ |= differ >> by;
  Key bit = differ ^ differ >> 1;
#pragma unroll 1
  for (int digit = 0; digit < kDigits && bit != 0; ++digit, bit >>= 1) {
    const Key lower = (bound | (bit - 1)) & ~bit;
    u32 count = 0;
#pragma unroll
    for (int k = 0; k < kWarps; ++k) count += __popc(__ballot_sync(kAll, mine[k] <= lower));
    bound = count >= wanted ? lower : bound | (bit - 1);
  }
  return bound;
}
DEVICE Element element_at(const SortArguments& a, const Element* from, i64 i) {
  return from[kNeighbours ? i : i * a.step];
}
// Whether that was all: there were not too many.
DEVICE bool select_few(const SortArguments& a, const Element* from, u32 (&room)[kWarps][kBuckets], Key* firsts,
                       u32& count, Key& bound) {
  constexpr u32 kPlaces = sizeof(room) / (sizeof(Key) + sizeof(u32)), kMost = 640;  // beyond that counts take longer
  constexpr u32 kRoom = kPlaces < kMost ? kPlaces : kMost;
  constexpr int kRoomHeld = kHeld > 0 ? kHeld : 1;
  Key* const keys = reinterpret_cast<Key*>(room);
  u32* const positions = reinterpret_cast<u32*>(keys + kRoom);
  const u32 n = static_cast<u32>(a.n);
  Key held[kRoomHeld], first = ~Key(0);
  if constexpr (kHeld > 0) {
    Element x[kRoomHeld];
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const u32 i = k * kThreads + threadIdx.x;
      if (i < n) x[k] = element_at(a, from, i);
    }
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      held[k] = k * kThreads + threadIdx.x < n ? key_of(x[k]) : ~Key(0);
      first = held[k] < first ? held[k] : first;
    }
  } else {
#pragma unroll 8
    for (i64 i = threadIdx.x; i < a.n; i += kThreads) {
      const Key key = key_of(element_at(a, from, i));
      first = key < first ? key : first;
    }
  }
  firsts[threadIdx.x] = first;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  if (threadIdx.x < 32) bound = bound_of(firsts, static_cast<u32>(a.limit));
  __syncthreads();
  const Key last = bound;
  const auto take = [&](Key key, u32 i) {
    if (key > last) return;
    const u32 at = atomicAdd(&count, 1u);
    if (at >= kRoom) return;
    keys[at] = key;
    positions[at] = i;
  };
  if (first <= last) {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        if (k * kThreads + threadIdx.x < n) take(held[k], k * kThreads + threadIdx.x);
      }
    } else {
#pragma unroll 8
      for (i64 i = threadIdx.x; i < a.n; i += kThreads) {
        take(key_of(element_at(a, from, i)), static_cast<u32>(i));
      }
    }
  }
  __syncthreads();
  const u32 all = count;
  if (all > kRoom) return false;
#pragma unroll 1
  for (u32 at = threadIdx.x; at < all; at += kThreads) {
    const Key key = keys[at];
    const u32 position = positions[at];
    u32 before = 0;
#pragma unroll 8
    for (u32 k = 0; k < all; ++k) {
      const bool smaller = keys[k] < key, same = keys[k] == key, earlier = positions[k] < position;
      before += smaller | (same & earlier);
    }
    if (before >= a.limit) continue;
    const i64 to = out_of(a, blockIdx.x) + before * a.out_step;
    a.values[to] = element_of(key, from + position * a.step);
    a.indices[to] = position;
  }
  return true;
}
BOUNDED_KERNEL(select_rows, SortArguments, kThreads, kHeld > 0 ? 1536 / kThreads : 1) {
  __shared__ TileMemory memory;
  __shared__ u32 positions_room[kTile];
  __shared__ u32 starts[kBuckets + 1], sums[kWarps], chosen;
  __shared__ Key bound;
  const Element* from = row_of(a, blockIdx.x);
  if (select_few(a, from, memory.ranking.counts, memory.room, chosen, bound)) return;
  __syncthreads();
  const i64 rounds = (a.n + kThreads - 1) / kThreads;
  Key prefix = 0;                          // the digits known of the last key
  u32 wanted = static_cast<u32>(a.limit);  // of those that begin like it
  for (int shift = kBits - 8; shift >= 0; shift -= 8) {
    u32* counts = memory.ranking.totals;
    for (int d = threadIdx.x; d < kBuckets; d += kThreads) counts[d] = 0;
    __syncthreads();
#pragma unroll 4
    for (i64 i = threadIdx.x; i < a.n; i += kThreads) {
      const Key key = key_of(from[i * a.step]);
      if (shift == kBits - 8 || key >> (shift + 8) == prefix) atomicAdd(&counts[digit_of(key, shift)], 1u);
    }
    __syncthreads();
    if (threadIdx.x < 32) scan_buckets(counts, starts);
    __syncthreads();
    for (int d = threadIdx.x; d < kBuckets; d += kThreads) {
      if (starts[d] < wanted && wanted <= starts[d] + counts[d]) chosen = static_cast<u32>(d);
    }
    __syncthreads();
    prefix = prefix << 8 | chosen;
    wanted -= starts[chosen];
    __syncthreads();
  }
  // Kept in the order of positions.
  u32 kept = 0, equal = 0;
  for (i64 round = 0; round < rounds && kept < a.limit; ++round) {
    const i64 i = round * kThreads + threadIdx.x;
    const Key key = i < a.n ? key_of(from[i * a.step]) : ~Key(0);
    const bool ties = i < a.n && key == prefix;
    u32 all_ties, all_taken;
    const u32 ties_before = equal + scan_threads(ties, sums, all_ties);
    const bool taken = i < a.n && (key < prefix || (ties && ties_before < wanted));
    const u32 place = kept + scan_threads(taken, sums, all_taken);
    if (taken) {
      memory.room[place] = key;
      positions_room[place] = static_cast<u32>(i);
    }
    equal += all_ties;
    kept += all_taken;
  }
  __syncthreads();
  Key keys[kItems];
  u32 positions[kItems];
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const int at = place_of(k);
    keys[k] = at < a.limit ? memory.room[at] : ~Key(0);
    positions[k] = at < a.limit ? positions_room[at] : 0;
  }
  __syncthreads();
  sort_tile(keys, positions, kBits, memory);
  store_sorted(a, from, keys, positions);
}
//! Rows of several tiles: keys are made, sorted (RadixSort), and made elements again.
//@ kSortLong
struct LongArguments {
  SortArguments sort;
  Key* keys;  // [rows of this batch, n]
  const u32* positions;
  i64 first, count;  // the rows of this batch
};
KERNEL(make_sort_keys, LongArguments) {
  u64 rest = static_cast<u64>(thread_number());
  const u64 place = rest;
  const i64 at = take_digit(rest, static_cast<u64>(a.sort.n)), row = static_cast<i64>(rest);
  if (row < a.count) a.keys[place] = key_of(row_of(a.sort, a.first + row)[at * a.sort.step]);
}
KERNEL(write_sorted, LongArguments) {
  u64 rest = static_cast<u64>(thread_number());
  const i64 at = take_digit(rest, static_cast<u64>(a.sort.limit)), row = static_cast<i64>(rest);
  if (row >= a.count) return;
  const i64 from = row * a.sort.n + at, to = out_of(a.sort, a.first + row) + at * a.sort.out_step;
  const u32 position = a.positions[from];
  a.sort.values[to] = element_of(a.keys[from], row_of(a.sort, a.first + row) + position * a.sort.step);
  a.sort.indices[to] = position;
}
