//! What hand-written programs begin with, after the prelude of generated ones.
//! KERNEL(name, Arguments) { ... a.field ... } is a function of a program; one may say how many threads its blocks have
//! at most, and how many of these a multiprocessor should hold.
//@ kNativePrelude
#ifndef KERNEL
#define KERNEL(name, Arguments) extern "C" __global__ void name(const __grid_constant__ Arguments a)
#define BOUNDED_KERNEL(name, Arguments, threads, blocks) \
  extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ Arguments a)
#else
#define BOUNDED_KERNEL(name, Arguments, threads, blocks) KERNEL(name, Arguments)
#endif
struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};

// Extents or strides of the axes that the rank counts; kMaxRank of them.
using AxisWords = i64[64];

DEVICE i64 thread_number() { return static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; }
// A position as its digits, the last first, each times a stride.
DEVICE i64 offset_at(u64 position, i64 rank, const AxisWords& extents, const AxisWords& strides) {
  i64 offset = 0;
  for (int axis = static_cast<int>(rank) - 1; axis > 0; --axis) {
    offset += take_digit(position, static_cast<u64>(extents[axis])) * strides[axis];
  }
  return rank > 0 ? offset + static_cast<i64>(position) * strides[0] : 0;
}

// An element in the type of its arithmetic, and back.
DEVICE f32 widen(f16 x) { return f16_to_f32(x.bits); }
DEVICE f32 widen(bf16 x) { return bf16_to_f32(x.bits); }
template <class E> DEVICE E widen(E x) { return x; }
template <class E> struct Narrow {
  template <class C> DEVICE E of(C x) { return static_cast<E>(x); }
};
template <> struct Narrow<f16> {
  template <class C> DEVICE f16 of(C x) { return {f32_to_f16(static_cast<f32>(x))}; }
};
template <> struct Narrow<bf16> {
  template <class C> DEVICE bf16 of(C x) { return {static_cast<u16>(round_pair_bf16(static_cast<f32>(x), 0.0f))}; }
};
template <class E> struct Is {
  static constexpr bool kFloat = false, kBool = false;
};
template <> struct Is<f16> {
  static constexpr bool kFloat = true, kBool = false;
};
template <> struct Is<bf16> {
  static constexpr bool kFloat = true, kBool = false;
};
template <> struct Is<f32> {
  static constexpr bool kFloat = true, kBool = false;
};
template <> struct Is<f64> {
  static constexpr bool kFloat = true, kBool = false;
};
template <> struct Is<bool> {
  static constexpr bool kFloat = false, kBool = true;
};
// The value of another thread of the warp.
template <class T> DEVICE T from_lane(T x, int lane) { return __shfl_sync(0xffffffffu, x, lane); }
DEVICE u8 from_lane(u8 x, int lane) { return static_cast<u8>(from_lane(static_cast<u32>(x), lane)); }
DEVICE i8 from_lane(i8 x, int lane) { return static_cast<i8>(from_lane(static_cast<i32>(x), lane)); }
DEVICE i16 from_lane(i16 x, int lane) { return static_cast<i16>(from_lane(static_cast<i32>(x), lane)); }
DEVICE bool from_lane(bool x, int lane) { return from_lane(static_cast<u32>(x), lane) != 0; }
DEVICE f16 from_lane(f16 x, int lane) { return {static_cast<u16>(from_lane(static_cast<u32>(x.bits), lane))}; }
DEVICE bf16 from_lane(bf16 x, int lane) { return {static_cast<u16>(from_lane(static_cast<u32>(x.bits), lane))}; }
