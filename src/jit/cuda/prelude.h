// What every generated program begins with: names of types, halves, memory, and what a group of threads does together.
#pragma once

namespace smolder::jit::cuda {

inline constexpr const char* kPrelude = R"cuda(typedef unsigned char u8;
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
// Of a value that is a bfloat16 already.
DEVICE u16 bf16_bits(f32 f) { return static_cast<u16>(__float_as_uint(f) >> 16); }
// The nearest two, the first in the low half: half as many conversions, which are slow.
DEVICE u32 round_pair_bf16(f32 low, f32 high) {
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
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
DEVICE u64 clamp_index(u64 i, i64 limit) {
  const i64 last = limit > 1 ? limit - 1 : 0, x = static_cast<i64>(i);
  return static_cast<u64>(x < 0 ? 0 : x > last ? last : x);
}
DEVICE i64 from_address(const void* p) { return reinterpret_cast<i64>(p); }

// V elements at once, aligned to their size or to 16 bytes.
template <int N> struct Bytes;
template <> struct Bytes<1> { typedef u8 type; };
template <> struct Bytes<2> { typedef u16 type; };
template <> struct Bytes<4> { typedef u32 type; };
template <> struct Bytes<8> { typedef uint2 type; };
template <> struct Bytes<16> { typedef uint4 type; };
template <class T, int V> union Pack {
  static constexpr int kBytes = V * sizeof(T), kPiece = kBytes < 16 ? kBytes : 16, kPieces = kBytes / kPiece;
  typename Bytes<kPiece>::type pieces[kPieces];
  T x[V];
};
template <class T, int V> DEVICE void load_whole(T (&x)[V], const T* from) {
  Pack<T, V> pack;
#pragma unroll
  for (int i = 0; i < pack.kPieces; ++i) {
    pack.pieces[i] = reinterpret_cast<const typename Bytes<Pack<T, V>::kPiece>::type*>(from)[i];
  }
#pragma unroll
  for (int k = 0; k < V; ++k) x[k] = pack.x[k];
}
template <class T, int V> DEVICE void store_whole(T* to, const T (&x)[V]) {
  Pack<T, V> pack;
#pragma unroll
  for (int k = 0; k < V; ++k) pack.x[k] = x[k];
#pragma unroll
  for (int i = 0; i < pack.kPieces; ++i) {
    reinterpret_cast<typename Bytes<Pack<T, V>::kPiece>::type*>(to)[i] = pack.pieces[i];
  }
}

// A group is the threads of one row of the block: a warp, or a block of one row.
extern __shared__ __align__(16) unsigned char shared[];
DEVICE void group_sync() {
  if (blockDim.x > 32) {
    __syncthreads();
  } else if (blockDim.x == 32) {
    __syncwarp();
  }
}
// Lanes that the elements of a loop are dealt out to: see docs/design.md, "CUDA kernels".
DEVICE int lanes_of(i64 extent) { return extent <= 1024 ? 32 : extent <= 8192 ? 256 : 512; }
DEVICE u8 shuffle(u8 x, int from) { return static_cast<u8>(__shfl_sync(0xffffffffu, static_cast<u32>(x), from)); }
DEVICE bool shuffle(bool x, int from) { return __shfl_sync(0xffffffffu, static_cast<u32>(x), from) != 0; }
DEVICE u32 shuffle(u32 x, int from) { return __shfl_sync(0xffffffffu, x, from); }
DEVICE u64 shuffle(u64 x, int from) { return __shfl_sync(0xffffffffu, x, from); }
DEVICE f32 shuffle(f32 x, int from) { return __shfl_sync(0xffffffffu, x, from); }
DEVICE f64 shuffle(f64 x, int from) { return __shfl_sync(0xffffffffu, x, from); }
template <int Half, class T, int W, class F> DEVICE void halve(T (&r)[W], F step) {
#pragma unroll
  for (int i = 0; i < Half; ++i) r[i] = step(r[i], r[i + Half]);
  if constexpr (Half > 1) halve<Half / 2>(r, step);
}
template <int W, class T, class F> DEVICE T combine_column(const T* lanes, F step) {
  T r[W];
#pragma unroll
  for (int i = 0; i < W; ++i) r[i] = lanes[i * 32];
  halve<W / 2>(r, step);
  return r[0];
}
// Lane i with lane i + half, by halving; the result in all threads.
template <class T, class F> DEVICE T combine(T x, F step) {
  if (blockDim.x > 32) {
    T* lanes = reinterpret_cast<T*>(shared);
    __syncthreads();
    lanes[threadIdx.x] = x;
    __syncthreads();
    if (threadIdx.x < 32) {
      x = blockDim.x == 256 ? combine_column<8>(lanes + threadIdx.x, step)
                            : combine_column<16>(lanes + threadIdx.x, step);
    }
  }
  if (threadIdx.x < 32) {
#pragma unroll
    for (int half = 16; half > 0; half /= 2) x = step(x, shuffle(x, (threadIdx.x + half) % 32));
    x = shuffle(x, 0);
  }
  if (blockDim.x > 32) {
    T* lanes = reinterpret_cast<T*>(shared);
    if (threadIdx.x == 0) lanes[0] = x;
    __syncthreads();
    x = lanes[0];
  }
  return x;
}
)cuda";

}  // namespace smolder::jit::cuda
