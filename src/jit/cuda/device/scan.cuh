//! The program names Element, Carry, in which it is summed, and Step.
//@ kScanStep
template <class C> struct Limits;
template <> struct Limits<bool> {
  DEVICE bool low() { return false; }
  DEVICE bool high() { return true; }
};
template <> struct Limits<u8> {
  DEVICE u8 low() { return 0; }
  DEVICE u8 high() { return 255; }
};
template <> struct Limits<i8> {
  DEVICE i8 low() { return -128; }
  DEVICE i8 high() { return 127; }
};
template <> struct Limits<i16> {
  DEVICE i16 low() { return -32768; }
  DEVICE i16 high() { return 32767; }
};
template <> struct Limits<i32> {
  DEVICE i32 low() { return static_cast<i32>(0x80000000u); }
  DEVICE i32 high() { return 0x7fffffff; }
};
template <> struct Limits<i64> {
  DEVICE i64 low() { return static_cast<i64>(0x8000000000000000ull); }
  DEVICE i64 high() { return 0x7fffffffffffffffll; }
};
template <> struct Limits<f64> {
  DEVICE f64 low() { return __longlong_as_double(static_cast<i64>(0xfff0000000000000ull)); }
  DEVICE f64 high() { return __longlong_as_double(0x7ff0000000000000ll); }
};
// The earlier value is the first operand.
struct Sum {
  static constexpr bool kAnyOrder = true;  // another is as good where only all of them are asked for
  DEVICE Carry identity() { return static_cast<Carry>(0); }
  template <class C> DEVICE C of(C x, C y) {
    if constexpr (Is<C>::kBool) return x || y;
    else if constexpr (Is<C>::kFloat) return x + y;
    else return static_cast<C>(static_cast<u64>(x) + static_cast<u64>(y));
  }
};
struct Product {
  static constexpr bool kAnyOrder = true;
  DEVICE Carry identity() { return static_cast<Carry>(1); }
  template <class C> DEVICE C of(C x, C y) {
    if constexpr (Is<C>::kBool) return x && y;
    else if constexpr (Is<C>::kFloat) return x * y;
    else return static_cast<C>(static_cast<u64>(x) * static_cast<u64>(y));
  }
};
// nan stays, and of equal elements the first.
struct Largest {
  static constexpr bool kAnyOrder = false;
  DEVICE Carry identity() { return Limits<Carry>::low(); }
  template <class C> DEVICE C of(C x, C y) { return y > x || !(y == y) ? y : x; }
};
struct Smallest {
  static constexpr bool kAnyOrder = false;
  DEVICE Carry identity() { return Limits<Carry>::high(); }
  template <class C> DEVICE C of(C x, C y) { return y < x || !(y == y) ? y : x; }
};
//! Rows. A thread has some neighbours, a warp rounds of them, side by side; what came before a round, a warp and a tile
//! is put in front of each.
//@ kScanRows
constexpr int kEach = 4, kRounds = 4, kOfThread = kEach * kRounds, kOfWarp = 32 * kOfThread;
constexpr int kWarps = kThreads / 32, kTile = kWarps * kOfWarp;
DEVICE int lane_number() { return static_cast<int>(threadIdx.x % 32); }
DEVICE int warp_number() { return static_cast<int>(threadIdx.x / 32); }
DEVICE int place_of(int round) { return round * (32 * kEach) + lane_number() * kEach; }

// The elements of a warp, up to each; returns that of all.
DEVICE Carry scan_warp(Carry (&x)[kOfThread]) {
  const int lane = lane_number();
  Carry before = Step::identity();
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    Carry* mine = x + r * kEach;
#pragma unroll
    for (int k = 1; k < kEach; ++k) mine[k] = Step::of(mine[k - 1], mine[k]);
    Carry upto = mine[kEach - 1];
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const Carry ahead = from_lane(upto, lane < step ? lane : lane - step);
      if (lane >= step) upto = Step::of(ahead, upto);
    }
    const Carry left = from_lane(upto, lane > 0 ? lane - 1 : 0);
    const Carry start = lane > 0 ? Step::of(before, left) : before;
#pragma unroll
    for (int k = 0; k < kEach; ++k) mine[k] = Step::of(start, mine[k]);
    before = Step::of(before, from_lane(upto, 31));
  }
  return before;
}
// The combination of all lanes, in their order.
DEVICE Carry across_warp(Carry x) {
#pragma unroll
  for (int step = 1; step < 32; step *= 2) x = Step::of(x, from_lane(x, (lane_number() + step) % 32));
  return from_lane(x, 0);
}
DEVICE Carry sum_warp(const Carry (&x)[kOfThread]) {
  Carry all = Step::identity();
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    Carry mine = x[r * kEach];
#pragma unroll
    for (int k = 1; k < kEach; ++k) mine = Step::of(mine, x[r * kEach + k]);
    all = Step::of(all, Step::kAnyOrder ? mine : across_warp(mine));
  }
  return Step::kAnyOrder ? across_warp(all) : all;
}
// `scan_warp` of a block, after what `before` says.
DEVICE Carry scan_block(Carry (&x)[kOfThread], Carry before, Carry* sums) {
  const Carry all = scan_warp(x);
  __syncthreads();
  if (lane_number() == 0) sums[warp_number()] = all;
  __syncthreads();
  Carry start = before;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    if (w == warp_number()) start = before;
    before = Step::of(before, sums[w]);
  }
#pragma unroll
  for (int k = 0; k < kOfThread; ++k) x[k] = Step::of(start, x[k]);
  return before;
}
// Elements of a warp from `from` on, of which there are `left`; identities after them.
template <class T> DEVICE void read_warp(Carry (&x)[kOfThread], const T* from, i64 left, bool whole) {
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const int at = place_of(r);
    Pack<T, kEach> y;
    if (whole && at + kEach <= left) {
      load_whole(y, from + at);
#pragma unroll
      for (int k = 0; k < kEach; ++k) x[r * kEach + k] = static_cast<Carry>(widen(y.x[k]));
    } else {
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        x[r * kEach + k] = at + k < left ? static_cast<Carry>(widen(from[at + k])) : Step::identity();
      }
    }
  }
}
template <class T> DEVICE void write_warp(const Carry (&x)[kOfThread], T* to, i64 left, bool whole) {
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const int at = place_of(r);
    Pack<T, kEach> y;
#pragma unroll
    for (int k = 0; k < kEach; ++k) y.x[k] = Narrow<T>::of(x[r * kEach + k]);
    if (whole && at + kEach <= left) {
      store_whole(to + at, y);
    } else {
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        if (at + k < left) to[at + k] = y.x[k];
      }
    }
  }
}

struct ScanArguments {
  const Element* x;
  Element* out;
  Carry* totals;  // [row, tile]
  i64 rows, n, tiles, whole;
};
KERNEL(scan_short_rows, ScanArguments) {
  const i64 row = static_cast<i64>(blockIdx.x) * kWarps + warp_number();
  if (row >= a.rows) return;
  Carry x[kOfThread];
  read_warp(x, a.x + row * a.n, a.n, a.whole);
  scan_warp(x);
  write_warp(x, a.out + row * a.n, a.n, a.whole);
}
// A block walks along a row.
KERNEL(scan_rows, ScanArguments) {
  __shared__ Carry sums[kWarps];
  const i64 row = blockIdx.x;
  Carry before = Step::identity();
  for (i64 first = 0; first < a.n; first += kTile) {
    const i64 at = row * a.n + first + warp_number() * kOfWarp, left = a.n - first - warp_number() * kOfWarp;
    Carry x[kOfThread];
    read_warp(x, a.x + at, left, a.whole);
    before = scan_block(x, before, sums);
    write_warp(x, a.out + at, left, a.whole);
  }
}
// Where rows are few, their tiles are summed side by side, then these sums, then tiles are scanned.
KERNEL(sum_tiles, ScanArguments) {
  __shared__ Carry sums[kWarps];
  const i64 row = blockIdx.x / a.tiles, first = blockIdx.x % a.tiles * kTile + warp_number() * kOfWarp;
  Carry x[kOfThread];
  read_warp(x, a.x + row * a.n + first, a.n - first, a.whole);
  const Carry mine = sum_warp(x);
  if (lane_number() == 0) sums[warp_number()] = mine;
  __syncthreads();
  if (threadIdx.x == 0) {
    Carry all = sums[0];
    for (int w = 1; w < kWarps; ++w) all = Step::of(all, sums[w]);
    a.totals[blockIdx.x] = all;
  }
}
KERNEL(scan_totals, ScanArguments) {
  __shared__ Carry sums[kWarps];
  Carry* totals = a.totals + blockIdx.x * a.tiles;
  Carry before = Step::identity();
  for (i64 first = 0; first < a.tiles; first += kTile) {
    const i64 at = first + warp_number() * kOfWarp;
    Carry x[kOfThread];
    read_warp(x, totals + at, a.tiles - at, false);
    before = scan_block(x, before, sums);
    write_warp(x, totals + at, a.tiles - at, false);
  }
}
KERNEL(scan_tiles, ScanArguments) {
  __shared__ Carry sums[kWarps];
  // The last first: they were read last and may still be in the cache.
  const i64 block = gridDim.x - 1 - blockIdx.x, row = block / a.tiles, tile = block % a.tiles;
  const i64 first = tile * kTile + warp_number() * kOfWarp;
  Carry x[kOfThread];
  read_warp(x, a.x + row * a.n + first, a.n - first, a.whole);
  scan_block(x, tile > 0 ? a.totals[block - 1] : Step::identity(), sums);
  write_warp(x, a.out + row * a.n + first, a.n - first, a.whole);
}
//! Columns of [outer, n, inner]. A thread walks along a stretch of one; where columns are few, stretches are summed
//! first.
//@ kScanColumns
struct ColumnArguments {
  const Element* x;
  Element* out;
  Carry* totals;  // [outer, stretch, inner]
  i64 outer, n, inner, stretches, length;
};
struct Stretch {
  i64 at, count;
};
DEVICE bool find_stretch(const ColumnArguments& a, Stretch& s) {
  u64 rest = static_cast<u64>(thread_number());
  const i64 column = take_digit(rest, static_cast<u64>(a.inner));
  const i64 first = take_digit(rest, static_cast<u64>(a.stretches)) * a.length, outer = static_cast<i64>(rest);
  s.at = (outer * a.n + first) * a.inner + column;
  s.count = smaller(a.length, a.n - first);
  return outer < a.outer;
}
KERNEL(sum_stretches, ColumnArguments) {
  Stretch s;
  if (!find_stretch(a, s)) return;
  Carry sum = Step::identity();
#pragma unroll 8
  for (i64 i = 0; i < s.count; ++i) sum = Step::of(sum, static_cast<Carry>(widen(a.x[s.at + i * a.inner])));
  a.totals[thread_number()] = sum;
}
// Totals become what comes before each stretch.
KERNEL(scan_stretches, ColumnArguments) {
  u64 rest = static_cast<u64>(thread_number());
  const i64 column = take_digit(rest, static_cast<u64>(a.inner)), outer = static_cast<i64>(rest);
  if (outer >= a.outer) return;
  Carry sum = Step::identity();
#pragma unroll 8
  for (i64 s = 0; s < a.stretches; ++s) {
    Carry& there = a.totals[(outer * a.stretches + s) * a.inner + column];
    const Carry total = there;
    there = sum;
    sum = Step::of(sum, total);
  }
}
KERNEL(scan_columns, ColumnArguments) {
  Stretch s;
  if (!find_stretch(a, s)) return;
  const Element* __restrict__ from = a.x;
  Element* __restrict__ to = a.out;
  Carry sum = a.stretches > 1 ? a.totals[thread_number()] : Step::identity();
#pragma unroll 8
  for (i64 i = 0; i < s.count; ++i) {
    sum = Step::of(sum, static_cast<Carry>(widen(from[s.at + i * a.inner])));
    to[s.at + i * a.inner] = Narrow<Element>::of(sum);
  }
}
