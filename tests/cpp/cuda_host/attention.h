// Stand-ins for the instructions of attention_products.cpp, for programs that are compiled with machine.h: the
// threads of a warp show each other their registers, and each computes its own elements.
#pragma once
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
#define DEVICE static inline
#define METHOD inline
#define UNROLL
static u32 shared_address(const void* p) { return static_cast<u32>(static_cast<const unsigned char*>(p) - shared); }
static void copy_async(u32 to, const void* from, bool inside) {
  if (to % 16 != 0 || (inside && reinterpret_cast<size_t>(from) % 16 != 0)) __builtin_trap();
  inside ? memcpy(shared + to, from, 16) : memset(shared + to, 0, 16);
}
static void copy_number(u32 to, const void* from, bool inside) {
  memset(shared + to, 0, 4);
  if (inside) memcpy(shared + to, from, 4);
}
static void finish_copies() {}
static u32 shown[1024][6];
static size_t my_warp() { return running / 32 * 32; }
static const u16* row_of(size_t matrix, size_t row) {
  return reinterpret_cast<const u16*>(shared + shown[my_warp() + 8 * matrix + row][0]);
}
static void load_matrices(u32 (&x)[4], u32 address) {
  if (address % 16 != 0) __builtin_trap();
  const size_t lane = running % 32;
  shown[running][0] = address;
  __syncwarp();
  for (int i = 0; i < 4; ++i) x[i] = *reinterpret_cast<const u32*>(row_of(i, lane / 4) + lane % 4 * 2);
  __syncwarp();
}
static void load_transposed(u32 (&x)[4], u32 address) {
  if (address % 16 != 0) __builtin_trap();
  const size_t lane = running % 32;
  shown[running][0] = address;
  __syncwarp();
  for (int i = 0; i < 4; ++i) {
    x[i] = row_of(i, lane % 4 * 2)[lane / 4] | static_cast<u32>(row_of(i, lane % 4 * 2 + 1)[lane / 4]) << 16;
  }
  __syncwarp();
}
static bool any_thread(bool x) {
  static bool said[1024];
  said[running] = x;
  __syncthreads();
  bool any = false;
  for (size_t i = 0; i < fibers.size(); ++i) any |= said[i];
  __syncthreads();
  return any;
}
static int warp_number() { return static_cast<int>(running / 32); }
static f32 exp2_fast(f32 x) { return exp2f(x); }
static f32 log2_fast(f32 x) { return log2f(x); }
static f32 shuffle(f32 x, int lane) { return __shfl_sync(~0u, x, lane); }
static f32 shuffle_xor(f32 x, int mask) { return __shfl_sync(~0u, x, static_cast<int>(running % 32) ^ mask); }
#if IS_FLOAT32
static f32 widen(f32 x) { return x; }
static u32 round_single(f32 x) {
  const u32 bits = __float_as_uint(x);
  return x - x == 0 ? (bits + 0x1000) & ~0x1fffu : bits;
}
static u32 load_word(u32 address) { return *reinterpret_cast<const u32*>(shared + address); }
static void load_four(f32 (&x)[4], u32 address) {
  if (address % 16 != 0) __builtin_trap();
  memcpy(x, shared + address, 16);
}
static void store_four(u32 address, const f32 (&x)[4]) { memcpy(shared + address, x, 16); }
static void store_single(u32 address, f32 x) { memcpy(shared + address, &x, 4); }
static void multiply_add(f32 (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  const size_t lane = running % 32;
  for (int i = 0; i < 4; ++i) shown[running][i] = a[i];
  shown[running][4] = b0;
  shown[running][5] = b1;
  __syncwarp();
  for (int i = 0; i < 4; ++i) {
    const size_t row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    f32 sum = 0;
    for (int k = 0; k < 8; ++k) {
      const u32 left = shown[my_warp() + row % 8 * 4 + k % 4][row / 8 + k / 4 * 2];
      const u32 right = shown[my_warp() + column * 4 + k % 4][4 + k / 4];
      if ((left | right) & 0x1fff) __builtin_trap();
      sum += __uint_as_float(left) * __uint_as_float(right);
    }
    c[i] += sum;
  }
  __syncwarp();
}
#else
static f32 widen(u16 h) { return IS_BFLOAT16 ? __uint_as_float(static_cast<u32>(h) << 16) : host_f16_to_f32(h); }
static u16 narrow(f32 f) { return IS_BFLOAT16 ? host_f32_to_bf16(f) : host_f32_to_f16(f); }
static u32 round_pair(f32 low, f32 high) { return narrow(low) | static_cast<u32>(narrow(high)) << 16; }
static u16 half_of(u32 pair, int i) { return static_cast<u16>(i % 2 ? pair >> 16 : pair); }
static void multiply_add(f32 (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  const size_t lane = running % 32;
  for (int i = 0; i < 4; ++i) shown[running][i] = a[i];
  shown[running][4] = b0;
  shown[running][5] = b1;
  __syncwarp();
  for (int i = 0; i < 4; ++i) {
    const size_t row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    f32 sum = 0;
    for (int k = 0; k < 16; ++k) {
      const u32 left = shown[my_warp() + row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2];
      const u32 right = shown[my_warp() + column * 4 + k % 8 / 2][4 + k / 8];
      sum += widen(half_of(left, k)) * widen(half_of(right, k));
    }
    c[i] += sum;
  }
  __syncwarp();
}
// The part of a warpgroup: an element of a matrix that a descriptor says, whose rows or (transposed) columns are K.
static f32 element_at(u64 matrix, size_t outer, size_t k, bool transposed) {
  const size_t start = (matrix & 0x3fff) << 4, next = (matrix >> 16 & 0x3fff) << 4,
               eight = (matrix >> 32 & 0x3fff) << 4;
  if (matrix >> 62 != 1) __builtin_trap();
  size_t at = start + (transposed ? outer / 64 * next + outer % 64 * 2 + k / 8 * eight + k % 8 * 128
                                  : outer / 8 * eight + outer % 8 * 128 + k * 2);
  at ^= (at >> 7 & 7) << 4;
  return widen(*reinterpret_cast<const u16*>(shared + at));
}
template <int kTransposed, int N>
static void group_multiply(f32 (&c)[N][4], const u32 (&a)[4], u64 b, bool sum) {
  const size_t lane = running % 32;
  for (int i = 0; i < 4; ++i) shown[running][i] = a[i];
  __syncwarp();
  for (int n = 0; n < N; ++n) {
    for (int i = 0; i < 4; ++i) {
      const size_t row = lane / 4 + i / 2 * 8, column = n * 8 + lane % 4 * 2 + i % 2;
      f32 x = sum ? c[n][i] : 0;
      for (int k = 0; k < 16; ++k) {
        const u32 left = shown[my_warp() + row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2];
        x += widen(half_of(left, k)) * element_at(b, column, k, kTransposed);
      }
      c[n][i] = x;
    }
  }
  __syncwarp();
}
template <int kTransposed, int N>
static void group_multiply(f32 (&c)[N][4], u64 a, u64 b, bool sum) {
  const size_t lane = running % 32;
  for (int n = 0; n < N; ++n) {
    for (int i = 0; i < 4; ++i) {
      const size_t row = running / 32 % 4 * 16 + lane / 4 + i / 2 * 8, column = n * 8 + lane % 4 * 2 + i % 2;
      f32 x = sum ? c[n][i] : 0;
      for (int k = 0; k < 16; ++k) x += element_at(a, row, k, false) * element_at(b, column, k, kTransposed);
      c[n][i] = x;
    }
  }
}
template <int N>
static void hold(f32 (&)[N][4]) {}
template <int N>
static void begin_products(f32 (&)[N][4]) {}
static void commit_products() {}
template <int Pending>
static void wait_products() {}
#endif
