//! What every generated program begins with: names of types, halves, memory, and what a group of threads does together.
//@ kPrelude begins a program
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef float f32;
typedef double f64;
#define DEVICE static __device__ __forceinline__
#define FOR_LANES _Pragma("unroll") for (int k = 0; k < V; ++k)
// The first N of C chunks are there. Where `pair` is 1 a unit is two chunks.
#define EACH_CHUNK _Pragma("unroll") for (int c = 0; c < C; ++c)
#define FOR_CHUNKS \
  EACH_CHUNK \
    if (const int i = first + (c >> pair) * (step << pair) + (c & pair) * V; c < N || i < n)

// Once all blocks have said so, the kernel after this one may start, and wait.
DEVICE void let_kernel_after_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
// A kernel may be launched while the one before it ends: it reads and writes nothing before this. A device holds as
// many blocks as kFewBlocks at once, with room for those of the kernel after it.
constexpr u32 kFewBlocks = 264;
DEVICE void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  if (gridDim.x <= kFewBlocks) let_kernel_after_start();
#endif
}

// The instruction drops the sign of a nan, which copysign may ask for.
DEVICE f32 f16_to_f32(u16 h) {
  f32 f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return __uint_as_float((__float_as_uint(f) & 0x7fffffffu) | static_cast<u32>(h & 0x8000u) << 16);
}
DEVICE u16 f32_to_f16(f32 f) {
  u16 h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}
DEVICE f32 bf16_to_f32(u16 h) { return __uint_as_float(static_cast<u32>(h) << 16); }
// The same for a value that is a bfloat16 already.
DEVICE u16 bf16_bits(f32 f) { return static_cast<u16>(__float_as_uint(f) >> 16); }
// The nearest two, the first in the low half: half as many conversions, which are slow.
DEVICE u32 round_pair_bf16(f32 low, f32 high) {
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
DEVICE u32 extend_i8(u8 x) { return static_cast<u32>(static_cast<i32>(static_cast<i8>(x))); }
DEVICE u32 extend_i16(u16 x) { return static_cast<u32>(static_cast<i32>(static_cast<i16>(x))); }
DEVICE f32 round_f16(f32 f) { return f16_to_f32(f32_to_f16(f)); }
DEVICE f32 round_bf16(f32 f) { return __uint_as_float(round_pair_bf16(f, 0.0f) << 16); }
template <int V> DEVICE void round_lanes_f16(f32 (&x)[V]) {
#pragma unroll
  for (int k = 0; k < V; ++k) x[k] = round_f16(x[k]);
}
template <int V> DEVICE void round_lanes_bf16(f32 (&x)[V]) {
#pragma unroll
  for (int k = 0; k + 1 < V; k += 2) {
    const u32 pair = round_pair_bf16(x[k], x[k + 1]);
    x[k] = __uint_as_float(pair << 16);
    x[k + 1] = __uint_as_float(pair & 0xffff0000u);
  }
  if (V % 2 == 1) x[V - 1] = round_bf16(x[V - 1]);
}

// Most numbers that are divided are indices, which 32 bits hold.
DEVICE u64 divide_i64(u64 x, u64 y) {
  if ((x | y) >> 31) return static_cast<u64>(static_cast<i64>(x) / static_cast<i64>(y));
  return static_cast<u32>(x) / static_cast<u32>(y);
}
// The last digit of a position whose last extent is n.
DEVICE i64 take_digit(u64& position, u64 n) {
  const u64 rest = (position | n) >> 32 ? position / n : static_cast<u32>(position) / static_cast<u32>(n);
  const u64 digit = position - rest * n;
  position = rest;
  return static_cast<i64>(digit);
}
DEVICE i64 smaller(i64 x, i64 y) { return x < y ? x : y; }
DEVICE int smaller(int x, int y) { return x < y ? x : y; }
DEVICE u64 clamp_index(u64 i, i64 limit) {
  const i64 last = limit > 1 ? limit - 1 : 0, x = static_cast<i64>(i);
  return static_cast<u64>(x < 0 ? 0 : x > last ? last : x);
}
// Where one of them has to be, and only then.
template <int V> DEVICE bool clamp_lanes(u64 (&to)[V], const u64 (&from)[V], i64 limit) {
  bool outside = false;
  FOR_LANES {
    outside |= from[k] >= static_cast<u64>(limit);
    to[k] = from[k];
  }
  if (outside)
    FOR_LANES
      to[k] = clamp_index(from[k], limit);
  return outside;
}
DEVICE i64 from_address(const void* p) { return reinterpret_cast<i64>(p); }

// The lanes of a chunk. In a regular one, as in one element, they have all in common that lanes can have in common.
template <int N, bool Regular = N == 1> struct Lanes {
  static constexpr int kCount = N;
  static constexpr bool kRegular = Regular;
};
// Lanes by calls that take four, as those of a chunk are: what is rare takes little text where it is not.
struct Four {
  f32 a, b, c, d;
};
template <int V, class F> DEVICE void by_fours(f32 (&y)[V], const f32 (&x)[V], F four) {
#pragma unroll
  for (int k = 0; k < V; k += 4) {
    const Four r = four(Four{x[k], x[k + 1 < V ? k + 1 : k], x[k + 2 < V ? k + 2 : k], x[k + 3 < V ? k + 3 : k]});
    y[k] = r.a;
    if (k + 1 < V) y[k + 1] = r.b;
    if (k + 2 < V) y[k + 2] = r.c;
    if (k + 3 < V) y[k + 3] = r.d;
  }
}
// How many chunks of a row a thread loads at once, how many of them each thread has, and of how many threads where that
// is known.
template <int C, int N = 0, int T = 0> struct Row {
  static constexpr int kChunks = C, kSure = N, kThreads = T;
};
// Neighbours that are of one lane of a reduction over n elements.
DEVICE int unit_of(i64 n) { return n > 16384 ? 8 : n % 4 != 0 ? 1 : 4; }
// V elements at once, aligned to their size or to 16 bytes.
template <int N> struct Bytes;
template <> struct Bytes<1> {
  typedef u8 type;
};
template <> struct Bytes<2> {
  typedef u16 type;
};
template <> struct Bytes<4> {
  typedef u32 type;
};
template <> struct Bytes<8> {
  typedef uint2 type;
};
template <> struct Bytes<16> {
  typedef uint4 type;
};
template <class T, int V> union Pack {
  static constexpr int kBytes = V * sizeof(T), kEven = kBytes & -kBytes, kPiece = kEven < 16 ? kEven : 16;
  static constexpr int kPieces = kBytes / kPiece;
  typename Bytes<kPiece>::type pieces[kPieces];
  T x[V];
  u32 words[(kBytes + 3) / 4];
};
// Element k as a float: half a word, without a move to a register of its own.
template <int V> DEVICE f32 bf16_lane(const Pack<u16, V>& pack, int k) {
  if constexpr (V == 1) return bf16_to_f32(pack.x[0]);
  else return __uint_as_float(k % 2 == 0 ? pack.words[k / 2] << 16 : pack.words[k / 2] & 0xffff0000u);
}
template <class T, int V> DEVICE void load_whole(Pack<T, V>& to, const T* from) {
#pragma unroll
  for (int i = 0; i < to.kPieces; ++i) {
    to.pieces[i] = reinterpret_cast<const typename Bytes<Pack<T, V>::kPiece>::type*>(from)[i];
  }
}
template <class T, int V> DEVICE u32 word_of(const Pack<T, V>& pack, int i) {
  if constexpr (sizeof(T) >= 4) {
    return pack.words[i];
  } else {
    constexpr int kCount = 4 / sizeof(T), kBits = 8 * sizeof(T);
    u32 word = 0;
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const auto bits = reinterpret_cast<const typename Bytes<sizeof(T)>::type&>(pack.x[i * kCount + k]);
      word |= static_cast<u32>(bits) << (kBits * k);
    }
    return word;
  }
}
// One access, whatever the compiler knows: it takes stores of what was joined apart, word by word.
template <class T> DEVICE void store_piece(T* to, T piece) { *to = piece; }
DEVICE void store_piece(uint2* to, uint2 p) {
  asm volatile("st.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(p.x), "r"(p.y) : "memory");
}
DEVICE void store_piece(uint4* to, uint4 p) {
  asm volatile("st.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(p.x), "r"(p.y), "r"(p.z), "r"(p.w) : "memory");
}
template <class T, int V> DEVICE auto piece_of(const Pack<T, V>& from, int i) {
  constexpr int kPiece = Pack<T, V>::kPiece;
  if constexpr (kPiece == 16) {
    return uint4{word_of(from, 4 * i), word_of(from, 4 * i + 1), word_of(from, 4 * i + 2), word_of(from, 4 * i + 3)};
  } else if constexpr (kPiece == 8) {
    return uint2{word_of(from, 2 * i), word_of(from, 2 * i + 1)};
  } else {
    return from.pieces[i];
  }
}
template <class T, int V> DEVICE void store_whole(T* to, const Pack<T, V>& from) {
#pragma unroll
  for (int i = 0; i < from.kPieces; ++i) {
    store_piece(reinterpret_cast<typename Bytes<Pack<T, V>::kPiece>::type*>(to) + i, piece_of(from, i));
  }
}
// The same to the device's memory.
template <class T, int V> DEVICE void store_global(T* to, const Pack<T, V>& from) {
#pragma unroll
  for (int i = 0; i < from.kPieces; ++i) {
    __stwb(reinterpret_cast<typename Bytes<Pack<T, V>::kPiece>::type*>(to) + i, piece_of(from, i));
  }
}
#ifdef __CUDA_ARCH__
DEVICE u32 shared_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }
#endif
// Past the caches.
template <class T, int V> DEVICE void stream_whole(T* to, const Pack<T, V>& from) {
#pragma unroll
  for (int i = 0; i < from.kPieces; ++i) {
    __stcs(reinterpret_cast<typename Bytes<Pack<T, V>::kPiece>::type*>(to) + i, piece_of(from, i));
  }
}

// To shared memory, where only the thread itself reads it.
template <class T, int V> DEVICE void copy_staged(T* to, const T* from) {
  constexpr int kPiece = Pack<T, V>::kPiece;
#pragma unroll
  for (int i = 0; i < Pack<T, V>::kPieces; ++i) {
#if __CUDA_ARCH__ >= 800
    if constexpr (kPiece == 16) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to) + 16 * i),
                   "l"(from + 16 / sizeof(T) * i)
                   : "memory");
      continue;
    }
#endif
    typedef typename Bytes<kPiece>::type Piece;
    reinterpret_cast<Piece*>(to)[i] = reinterpret_cast<const Piece*>(from)[i];
  }
}
DEVICE void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// A group is the threads of one row of the block: up to a warp, a power of two of them, or a block of one row, or, in a
// team, several warps of it.
extern __shared__ __align__(16) unsigned char shared[];
DEVICE u32 group_mask() {
  return blockDim.x < 32 ? ((1u << blockDim.x) - 1) << (threadIdx.y * blockDim.x % 32) : 0xffffffffu;
}
// The same over several warps. A barrier whose number is no constant makes a block ask for all 16, of which a
// multiprocessor has too few for many blocks.
template <bool kTeam> DEVICE void group_barrier() {
  if constexpr (kTeam) {
    if (blockDim.y == 1) return __syncthreads();
    asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.y + 1), "r"(blockDim.x) : "memory");
  } else {
    __syncthreads();
  }
}
template <bool kTeam = false> DEVICE void group_sync() {
  if (blockDim.x > 32) {
    group_barrier<kTeam>();
  } else if (blockDim.x > 1) {
    __syncwarp(group_mask());
  }
}
// A place in the device's memory, which is not worked out again for each use.
template <class T> DEVICE T* fixed(T* at) {
#ifdef __CUDA_ARCH__
  asm("" : "+l"(at));
  __builtin_assume(__isGlobal(at));
#endif
  return at;
}
// The same, worked out each time: it takes no registers in between.
template <class T> DEVICE T* fixed_here(T* at) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+l"(at));
  __builtin_assume(__isGlobal(at));
#endif
  return at;
}
// Whole chunks stay in registers; single elements are in memory.
template <class T, int V> DEVICE void from_registers(Pack<T, V>& to, const Pack<T, V>& from, const T*) { to = from; }
template <class T, int V> DEVICE void from_registers(Pack<T, 1>& to, const Pack<T, V>&, const T* at) { to.x[0] = *at; }
template <class T, int V> DEVICE void to_registers(Pack<T, V>& to, const Pack<T, V>& from) { to = from; }
template <class T, int V> DEVICE void to_registers(Pack<T, V>&, const Pack<T, 1>&) {}
// The columns of a thread in a tile of a row of n elements: a chunk, or as many that lie apart, so that
// those of neighbours are next to each other.
template <int V, bool R = false, class F> DEVICE void for_columns(i64 tile, i64 n, bool aligned, F body) {
  const i64 first = tile * blockDim.x * V;
  const i64 i = first + (aligned ? threadIdx.x * V : threadIdx.x), step = aligned ? 1 : blockDim.x;
  if (aligned && i + V <= n) return body(i, Lanes<V, R>());
#pragma unroll 1
  for (int k = 0; k < V; ++k) {
    if (i + k * step < n) body(i + k * step, Lanes<1>());
  }
}
template <int V, class F> DEVICE void for_columns(i64 tile, i64 n, bool aligned, bool regular, F body) {
  const i64 i = (tile * blockDim.x + threadIdx.x) * V;
  if (aligned && regular && i + V <= n) return body(i, Lanes<V, true>());
  for_columns<V>(tile, n, aligned, body);
}
// The same of rows that begin anywhere, by a body that moves elements: a thread has as many on their way as in a chunk,
// each as far from the next as makes those of neighbours lie next to each other.
struct Apart {
  i64 first;
  int step;
};
template <class T> struct PlacesApart {
  T* first;
  int step;
};
DEVICE i64 operator+(Apart i, int k) { return i.first + k * i.step; }
template <class T> DEVICE PlacesApart<T> operator+(T* at, Apart i) { return {at + i.first, i.step}; }
template <class T, int V> DEVICE void load_whole(Pack<T, V>& to, PlacesApart<T> from) {
#pragma unroll
  for (int k = 0; k < V; ++k) to.x[k] = from.first[k * from.step];
}
template <class T, int V> DEVICE void store_global(PlacesApart<T> to, const Pack<T, V>& from) {
#pragma unroll
  for (int k = 0; k < V; ++k) to.first[k * to.step] = from.x[k];
}
template <int V, class F> DEVICE void for_moved_columns(i64 tile, i64 n, bool aligned, F body) {
  const int step = blockDim.x;
  const i64 first = tile * step * V;
  if (!aligned && first + step * V <= n) return body(Apart{first + threadIdx.x, step}, Lanes<V>());
  for_columns<V>(tile, n, aligned, body);
}
// The same where the threads of a block meet in `body`, which finds of the tile its first column: chunks are all whole,
// or elements are taken one by one.
template <int V, bool R = false, class F> DEVICE void for_team_columns(i64 tile, bool whole, F body) {
  const i64 first = tile * blockDim.x * V;
  if (whole) return body(first, Lanes<V, R>());
#pragma unroll 1
  for (int k = 0; k < V; ++k) body(first + k * blockDim.x, Lanes<1>());
}
template <int V, class F> DEVICE void for_team_columns(i64 tile, bool whole, bool regular, F body) {
  if (whole && regular) return body(tile * blockDim.x * V, Lanes<V, true>());
  for_team_columns<V>(tile, whole, body);
}
// The units of a loop of n elements that are the thread's, each at once where it is a whole chunk.
template <int V, class F> DEVICE void for_units(int n, int unit, bool aligned, int lanes, F chunk) {
  if (threadIdx.x >= lanes) return;
  int i = threadIdx.x * unit;
  if (aligned && unit % V == 0) {
#pragma unroll 1
    for (; i <= n - unit; i += unit * lanes) {
#pragma unroll 1
      for (int k = 0; k < unit; k += V) chunk(i + k, Lanes<V>());
    }
  }
#pragma unroll 1
  for (; i < n; i += unit * lanes) {
#pragma unroll 1
    for (int k = 0; k < unit && i + k < n; ++k) chunk(i + k, Lanes<1>());
  }
}
// The same units, where each is taken element by element, for as many sides of a thread.
template <int S, class F, class R> DEVICE void for_single(int n, int unit, F chunk, R next_side) {
#pragma unroll 1
  for (int i = threadIdx.x * unit * S; i < n; i += unit * S * blockDim.x) {
#pragma unroll 1
    for (int s = 0; s < S; ++s) {
#pragma unroll 1
      for (int k = s * unit; k < (s + 1) * unit && i + k < n; ++k) chunk(0, i + k, Lanes<1>());
      next_side();
    }
  }
}
// The same from `begin` on, a multiple of a unit, where a thread has one side. Of a whole unit all elements are on
// their way at once.
template <int V, class F> DEVICE void for_rest(int begin, int n, int unit, F chunk) {
  const int place = (threadIdx.x - begin / unit) & (blockDim.x - 1);
#pragma unroll 1
  for (int i = begin + place * unit; i < n; i += unit * blockDim.x) {
    if (unit == V && i + V <= n) {
#pragma unroll
      for (int k = 0; k < V; ++k) chunk(0, i + k, Lanes<1>());
    } else {
#pragma unroll 1
      for (int k = 0; k < unit && i + k < n; ++k) chunk(0, i + k, Lanes<1>());
    }
  }
}
// Elements from `begin` on, of which any thread may take any: neighbours, those next to each other.
template <class F> DEVICE void for_any(int begin, int n, F chunk) {
#pragma unroll 1
  for (int i = begin + threadIdx.x; i < n; i += blockDim.x) chunk(0, i, Lanes<1>());
}
template <class T> DEVICE void swap_sides(T (&x)[2]) {
  const T first = x[0];
  x[0] = x[1];
  x[1] = first;
}
// Chunks of the threads of a group, in pieces so that those of neighbours are next to each other; and which element of
// the tile is in which place then.
template <class T, int V> DEVICE void store_slot(T* slot, const Pack<T, V>& from) {
#pragma unroll
  for (int i = 0; i < from.kPieces; ++i) {
    reinterpret_cast<typename Bytes<Pack<T, V>::kPiece>::type*>(slot)[i * blockDim.x + threadIdx.x] = piece_of(from, i);
  }
}
template <class T, int V> DEVICE void load_slot(Pack<T, V>& to, const T* slot) {
#pragma unroll
  for (int i = 0; i < to.kPieces; ++i) {
    to.pieces[i] =
        reinterpret_cast<const typename Bytes<Pack<T, V>::kPiece>::type*>(slot)[i * blockDim.x + threadIdx.x];
  }
}
template <class T, int V> DEVICE int slot_column(int place) {
  constexpr int kPiece = Pack<T, V>::kPiece / sizeof(T);
  const int all = blockDim.x * kPiece, piece = place / all, rest = place - piece * all;
  return rest / kPiece * V + piece * kPiece + rest % kPiece;
}
// Adds to one element what segments have in their slots, in order.
template <class T, class F> DEVICE T add_slots(T sum, const T* slot, i64 slot_size, int segments, F step) {
#pragma unroll 8
  for (int s = 0; s < segments; ++s) sum = step(sum, slot[slot_size * s]);
  return sum;
}
// Adds to sums, or to what they begin with, what groups have in their slots, group by group. Of so many columns each
// begins with warps of its own.
template <int V, class T, class F>
DEVICE void add_segments(int column, int columns, T* sums, bool begins, T initial, const T* slots, i64 slot_size,
                         int segments, i64 n, bool aligned, F step) {
  const int threads = blockDim.x * blockDim.y, rest = threads - threads / columns / 32 * 32 * column;
  int t = threadIdx.y * blockDim.x + threadIdx.x + rest;
  if (t >= threads) t -= threads;
  const auto add = [&](i64 i, auto lanes) {
    Pack<T, decltype(lanes)::kCount> sum, x;
    if (!begins) {
      load_whole(sum, sums + i);
    } else {
#pragma unroll
      for (int k = 0; k < decltype(lanes)::kCount; ++k) sum.x[k] = initial;
    }
#pragma unroll(decltype(lanes)::kCount)
    for (int s = 0; s < segments; ++s) {
      load_whole(x, slots + slot_size * s + i);
#pragma unroll
      for (int k = 0; k < decltype(lanes)::kCount; ++k) sum.x[k] = step(sum.x[k], x.x[k]);
    }
    store_whole(sums + i, sum);
  };
  const i64 whole = aligned ? n / V * V : 0;
#pragma unroll 1
  for (i64 i = static_cast<i64>(t) * V; i < whole; i += V * threads) add(i, Lanes<V>());
#pragma unroll 1
  for (i64 i = whole + t; i < n; i += threads) add(i, Lanes<1>());
}
// The value of lane `from` modulo `width`.
DEVICE u32 shuffle(u32 x, int from, int width) { return __shfl_sync(group_mask(), x, from, width); }
DEVICE u64 shuffle(u64 x, int from, int width) { return __shfl_sync(group_mask(), x, from, width); }
DEVICE f32 shuffle(f32 x, int from, int width) { return __shfl_sync(group_mask(), x, from, width); }
DEVICE f64 shuffle(f64 x, int from, int width) { return __shfl_sync(group_mask(), x, from, width); }
DEVICE u8 shuffle(u8 x, int from, int width) { return static_cast<u8>(shuffle(static_cast<u32>(x), from, width)); }
DEVICE u16 shuffle(u16 x, int from, int width) { return static_cast<u16>(shuffle(static_cast<u32>(x), from, width)); }
DEVICE bool shuffle(bool x, int from, int width) { return shuffle(static_cast<u32>(x), from, width) != 0; }
// A value that all lanes of a group have: that of the first.
template <class T> DEVICE T same(T x) { return shuffle(x, 0, blockDim.x < 32 ? blockDim.x : 32); }
// Combines neighbours among the first so many lanes of a warp, then their results, until one is left, which all lanes
// get.
template <class T, class F> DEVICE T pair_lanes(T x, u32 lanes, u32 width, F step) {
#pragma unroll 1
  for (u32 by = 1; by < lanes; by *= 2) x = step(x, shuffle(x, threadIdx.x + by, width));
  return shuffle(x, 0, width);
}
// In a whole warp, of the lane so many further on, where there is one; and of the first.
template <class T> DEVICE T lane_after(T x, int by) { return shuffle(x, threadIdx.x + by, 32); }
template <class T> DEVICE T first_lane(T x) { return shuffle(x, 0, 32); }
#ifdef __CUDA_ARCH__
DEVICE f32 lane_after(f32 x, int by) { return __shfl_down_sync(0xffffffffu, x, by); }
DEVICE f32 first_lane(f32 x) { return __shfl_sync(0xffffffffu, x, 0); }
#endif
template <class T, class F> DEVICE T pair_warp(T x, F step) {
#pragma unroll
  for (u32 by = 1; by < 32; by *= 2) x = step(x, lane_after(x, by));
  return first_lane(x);
}
// All lanes of a group: see docs/architecture/cuda_kernels.md. Warps meet in shared memory, alternately in one of two
// places, so that the next may be written while this is read. `Threads` where that is known, else 0.
template <bool kTeam = false, int Threads = 0, class T, class F> DEVICE T combine(T x, u32& parity, F step) {
  const u32 threads = Threads > 0 ? Threads : blockDim.x;
  if (Threads > 0 && Threads < 32) {
#pragma unroll
    for (u32 by = 1; by < Threads; by *= 2) x = step(x, shuffle(x, threadIdx.x + by, Threads));
    return shuffle(x, 0, Threads);
  }
  if (threads < 32) return pair_lanes(x, threads, threads, step);
  const u32 warps = threads / 32;
  x = pair_warp(x, step);
  if (warps == 1) return x;
  T* const all = reinterpret_cast<T*>(shared + 512 * threadIdx.y + 256 * parity);
  parity ^= 1;
  if (threadIdx.x % 32 == 0) all[threadIdx.x / 32] = x;
  group_barrier<kTeam>();
  x = all[threadIdx.x % 32 & (warps - 1)];
  if (Threads == 0) return pair_lanes(x, warps, 32, step);
#pragma unroll
  for (u32 by = 1; by < Threads / 32; by *= 2) x = step(x, lane_after(x, by));
  return first_lane(x);
}
// The same for the sides of each.
template <bool kTeam = false, int Threads = 0, class T, class F>
DEVICE T combine(const T (&x)[2], u32& parity, F step) {
  return combine<kTeam, Threads>(step(x[0], x[1]), parity, step);
}
