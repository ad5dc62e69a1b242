//! Ranks of the keys of a tile, for programs that sort in one block. They name the type of keys Key, and take from the
//! program: kThreads, a power of two of at least 128, and kItems, of each thread.
//@ kRadixRank
constexpr int kWarps = kThreads / 32, kTile = kThreads * kItems, kBuckets = 256;
constexpr u32 kAll = 0xffffffffu;
DEVICE int lane_number() { return static_cast<int>(threadIdx.x % 32); }
DEVICE int warp_number() { return static_cast<int>(threadIdx.x / 32); }
// Where the k-th item of a thread is in the tile: a warp has items of its own, which lie side by side.
DEVICE int place_of(int k) { return warp_number() * (32 * kItems) + k * 32 + lane_number(); }
DEVICE u32 digit_of(Key key, int shift) { return static_cast<u32>(key >> shift) & 255u; }

// The counts from which the ranks of a tile are made.
struct Ranking {
  u32 counts[kWarps][kBuckets];
  u32 totals[kBuckets];
  u32 starts[kBuckets + 1];
};

// The sum of a number of each lane up to its own.
DEVICE u32 sum_up_to_lane(u32 x) {
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const u32 before = __shfl_sync(kAll, x, lane_number() < step ? lane_number() : lane_number() - step);
    if (lane_number() >= step) x += before;
  }
  return x;
}

// Sums of the elements before each; the sum of all is the last. One warp.
DEVICE void scan_buckets(const u32* from, u32* to) {
  constexpr int kEach = kBuckets / 32;
  const int lane = lane_number();
  u32 sum = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) sum += from[lane * kEach + i];
  u32 at = sum_up_to_lane(sum) - sum;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    to[lane * kEach + i] = at;
    at += from[lane * kEach + i];
  }
  if (lane == 31) to[kBuckets] = at;
}

// The lanes of a warp that have the same digit. That they tell each other bit by bit: the instruction that finds them
// takes a turn for each digit that there is.
DEVICE u32 lanes_with(u32 digit) {
  u32 lanes = kAll;
#pragma unroll
  for (int bit = 0; bit < 8; ++bit) {
    const u32 set = __ballot_sync(kAll, digit >> bit & 1);
    lanes &= digit >> bit & 1 ? set : ~set;
  }
  return lanes;
}

// How many items have each digit: totals, of all warps. `mine`: how many of the warp with a thread's digit come before
// its item.
DEVICE void count_digits(const u32 (&digits)[kItems], Ranking& r, u32 (&mine)[kItems]) {
  for (int i = threadIdx.x; i < kWarps * kBuckets; i += kThreads) r.counts[i / kBuckets][i % kBuckets] = 0;
  __syncthreads();
  u32* counts = r.counts[warp_number()];
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const u32 peers = lanes_with(digits[k]), before = counts[digits[k]];
    const u32 ahead = peers & ((1u << lane_number()) - 1u);
    mine[k] = before + static_cast<u32>(__popc(ahead));
    __syncwarp();
    if (ahead == 0) counts[digits[k]] = before + static_cast<u32>(__popc(peers));
    __syncwarp();
  }
  __syncthreads();
  for (int d = threadIdx.x; d < kBuckets; d += kThreads) {
    u32 sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const u32 count = r.counts[w][d];
      r.counts[w][d] = sum;
      sum += count;
    }
    r.totals[d] = sum;
  }
  __syncthreads();
}

// The place of each item in the tile sorted by digit; equal ones stay in order.
DEVICE void rank(const u32 (&digits)[kItems], Ranking& r, u32 (&ranks)[kItems]) {
  count_digits(digits, r, ranks);
  if (threadIdx.x < 32) scan_buckets(r.totals, r.starts);
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kItems; ++k) ranks[k] += r.counts[warp_number()][digits[k]] + r.starts[digits[k]];
}

// Items to the places that their ranks say, and back into registers.
template <class T> DEVICE void exchange(T (&items)[kItems], const u32 (&ranks)[kItems], T* room) {
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kItems; ++k) room[ranks[k]] = items[k];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kItems; ++k) items[k] = room[place_of(k)];
}

struct TileMemory {
  Ranking ranking;
  Key room[kTile];
};
// A whole tile by the lowest `bits` bits of its keys.
DEVICE void sort_tile(Key (&keys)[kItems], u32 (&positions)[kItems], int bits, TileMemory& m) {
  for (int shift = 0; shift < bits; shift += 8) {
    u32 digits[kItems], ranks[kItems];
#pragma unroll
    for (int k = 0; k < kItems; ++k) digits[k] = digit_of(keys[k], shift);
    rank(digits, m.ranking, ranks);
    exchange(keys, ranks, m.room);
    exchange(positions, ranks, reinterpret_cast<u32*>(m.room));
  }
}
//! Rows of many tiles. A tile counts its digits; the counts of a digit are summed along the tiles of its row; then each
//! tile knows where its items go.
//@ kRadix
struct TileArguments {
  Key* keys;
  u32* positions;
  i64 n, bits;
};
// A row that one tile holds.
KERNEL(sort_one, TileArguments) {
  __shared__ TileMemory memory;
  Key* row = a.keys + blockIdx.x * a.n;
  Key keys[kItems];
  u32 positions[kItems];
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const int at = place_of(k);
    keys[k] = at < a.n ? row[at] : ~Key(0);
    positions[k] = static_cast<u32>(at);
  }
  sort_tile(keys, positions, static_cast<int>(a.bits), memory);
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const int at = place_of(k);
    if (at < a.n) {
      row[at] = keys[k];
      a.positions[blockIdx.x * a.n + at] = positions[k];
    }
  }
}

struct CountArguments {
  const Key* keys;
  u32* counts;  // [row, digit, tile]
  i64 n, tiles, shift;
};
KERNEL(count_tiles, CountArguments) {
  __shared__ u32 counts[kBuckets];
  const i64 row = blockIdx.x / a.tiles, tile = blockIdx.x % a.tiles, left = a.n - tile * kTile;
  const Key* from = a.keys + row * a.n + tile * kTile;
  for (int d = threadIdx.x; d < kBuckets; d += kThreads) counts[d] = 0;
  Key keys[kItems];
#pragma unroll
  for (int k = 0; k < kItems; ++k) keys[k] = place_of(k) < left ? from[place_of(k)] : 0;
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    if (place_of(k) < left) atomicAdd(&counts[digit_of(keys[k], static_cast<int>(a.shift))], 1u);
  }
  __syncthreads();
  for (int d = threadIdx.x; d < kBuckets; d += kThreads) {
    a.counts[(row * kBuckets + d) * a.tiles + tile] = counts[d];
  }
}

struct ScanArguments {
  u32* counts;
  u32* totals;  // [row, digit]
  i64 tiles;
};
// A block has one digit of one row.
KERNEL(scan_counts, ScanArguments) {
  __shared__ u32 sums[kWarps];
  u32* counts = a.counts + blockIdx.x * a.tiles;
  u32 carry = 0;
  for (i64 first = 0; first < a.tiles; first += kThreads) {
    const i64 i = first + threadIdx.x;
    const u32 count = i < a.tiles ? counts[i] : 0;
    const u32 upto = sum_up_to_lane(count);
    if (lane_number() == 31) sums[warp_number()] = upto;
    __syncthreads();
    u32 ahead = carry, all = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp_number()) ahead += sums[w];
      all += sums[w];
    }
    if (i < a.tiles) counts[i] = ahead + upto - count;
    carry += all;
    __syncthreads();
  }
  if (threadIdx.x == 0) a.totals[blockIdx.x] = carry;
}

struct MoveArguments {
  const Key* keys;
  const u32* positions;  // null in the first pass: items are where they were
  Key* keys_to;
  u32* positions_to;
  const u32* counts;
  const u32* totals;
  i64 n, tiles, shift;
};
KERNEL(move_tiles, MoveArguments) {
  __shared__ TileMemory memory;
  __shared__ u32 targets[kBuckets + 1];
  Ranking& ranking = memory.ranking;
  const i64 row = blockIdx.x / a.tiles, tile = blockIdx.x % a.tiles, left = a.n - tile * kTile;
  const i64 start = row * a.n + tile * kTile;
  const int shift = static_cast<int>(a.shift);
  Key keys[kItems];
  u32 positions[kItems], digits[kItems], ranks[kItems];
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const int at = place_of(k);
    const bool inside = at < left;
    keys[k] = inside ? a.keys[start + at] : 0;
    positions[k] = !inside ? 0 : a.positions ? a.positions[start + at] : static_cast<u32>(tile * kTile + at);
    digits[k] = inside ? digit_of(keys[k], shift) : kBuckets - 1;
  }
  rank(digits, ranking, ranks);
  if (threadIdx.x < 32) scan_buckets(a.totals + row * kBuckets, targets);
  __syncthreads();
  // An item at place i of the sorted tile goes i beyond what its digit's target is now.
  for (int d = threadIdx.x; d < kBuckets; d += kThreads) {
    targets[d] += a.counts[(row * kBuckets + d) * a.tiles + tile] - ranking.starts[d];
  }
#pragma unroll
  for (int k = 0; k < kItems; ++k) memory.room[ranks[k]] = keys[k];
  __syncthreads();
  u32 to[kItems];
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const int i = k * kThreads + static_cast<int>(threadIdx.x);
    to[k] = targets[digit_of(memory.room[i], shift)] + static_cast<u32>(i);
    if (i < left) a.keys_to[row * a.n + to[k]] = memory.room[i];
  }
  __syncthreads();
  u32* room = reinterpret_cast<u32*>(memory.room);
#pragma unroll
  for (int k = 0; k < kItems; ++k) room[ranks[k]] = positions[k];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const int i = k * kThreads + static_cast<int>(threadIdx.x);
    if (i < left) a.positions_to[row * a.n + to[k]] = room[i];
  }
}
