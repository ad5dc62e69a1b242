// The parts of CUDA C++ beyond C++, for programs that run on the host: intrinsics, and a scheduler of fibers, one for
// each thread of a block. Programs are compiled with this included before their first line.
#pragma once

// C's headers alone: with C++'s containers and overloads, reading this took longer than compiling most programs.
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#include <math.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
struct uint2 {
  unsigned x, y;
};
struct uint4 {
  unsigned x, y, z, w;
};
struct BlockIndex {
  unsigned x = 1, y = 1, z = 1;
};
static BlockIndex blockIdx, threadIdx, blockDim, gridDim;
#define __device__
#define __global__
#define __shared__ static
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
alignas(16) unsigned char shared[256 << 10];
#define KERNEL(name, Arguments)                                                          \
  static void name(const Arguments& a);                                                  \
  extern "C" void run_##name(const void* a) { name(*static_cast<const Arguments*>(a)); } \
  extern "C" unsigned long size_##name() { return sizeof(Arguments); }                   \
  static void name(const Arguments& a)
static int __popc(unsigned x) { return __builtin_popcount(x); }
static int __ffs(unsigned x) { return __builtin_ffs(static_cast<int>(x)); }
static unsigned atomicAdd(unsigned* to, unsigned x) { return (*to += x) - x; }
static unsigned long long atomicAdd(unsigned long long* to, unsigned long long x) { return (*to += x) - x; }

template <class To, class From>
static To bits_as(From x) {
  To to;
  memcpy(&to, &x, sizeof to);
  return to;
}
static float __uint_as_float(unsigned x) { return bits_as<float>(x); }
static unsigned __float_as_uint(float x) { return bits_as<unsigned>(x); }
static double __longlong_as_double(long long x) { return bits_as<double>(x); }
static long long __double_as_longlong(double x) { return bits_as<long long>(x); }
static float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
static double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
static float __fsqrt_rn(float x) { return sqrtf(x); }
static double __dsqrt_rn(double x) { return sqrt(x); }
static float __double2float_rn(double x) { return static_cast<float>(x); }
static unsigned __umulhi(unsigned x, unsigned y) { return static_cast<unsigned long long>(x) * y >> 32; }
template <class I, class F>
static I to_int(F x, double limit) {
  if (!(x == x)) return 0;
  if (x >= limit) return static_cast<I>((1ull << (8 * sizeof(I) - 1)) - 1);
  if (x < -limit) return static_cast<I>(1ull << (8 * sizeof(I) - 1));
  return static_cast<I>(x);
}
static int __float2int_rz(float x) { return to_int<int>(x, 0x1p31); }
static int __double2int_rz(double x) { return to_int<int>(x, 0x1p31); }
static long long __float2ll_rz(float x) { return to_int<long long>(x, 0x1p63); }
static long long __double2ll_rz(double x) { return to_int<long long>(x, 0x1p63); }
static float host_f16_to_f32(unsigned short h) { return static_cast<float>(bits_as<_Float16>(h)); }
static unsigned short host_f32_to_f16(float f) { return bits_as<unsigned short>(static_cast<_Float16>(f)); }
static unsigned short host_f32_to_bf16(float f) {
  const unsigned b = bits_as<unsigned>(f);
  return f != f ? 0x7fff : static_cast<unsigned short>((b + ((b >> 16 & 1) + 0x7fff)) >> 16);
}

struct Fiber {
  ucontext_t context;  // where it begins; it goes on at `jump`, which unlike this takes no system call
  jmp_buf jump;
  char* stack;
  BlockIndex index;
  bool begun, done;
  unsigned long warp, group, block;
  unsigned long long slot;
};
constexpr size_t kMostFibers = 1024;
static struct Fibers {
  Fiber* first = nullptr;
  size_t count = 0;
  ~Fibers() {  // when the program is closed
    for (size_t i = 0; first && i < kMostFibers; ++i) free(first[i].stack);
    free(first);
  }
  size_t size() const { return count; }
  Fiber& operator[](size_t i) const { return first[i]; }
} fibers;
static size_t running;
static jmp_buf scheduler;
static void yield() {
  if (!_setjmp(fibers[running].jump)) _longjmp(scheduler, 1);
}
static void __attribute__((noinline)) resume(Fiber& f) {
  if (_setjmp(scheduler)) return;
  if (f.begun) _longjmp(f.jump, 1);
  f.begun = true;
  setcontext(&f.context);
}
template <class Count>
static void wait(size_t begin, size_t end, Count Fiber::* count) {
  const unsigned long mine = ++(fibers[running].*count);
  for (;;) {
    bool all = true;
    for (size_t i = begin; i < end; ++i) all = all && (fibers[i].done || fibers[i].*count >= mine);
    if (all) return;
    yield();
  }
}
static void __syncthreads() { wait(0, fibers.size(), &Fiber::block); }
static void host_group_barrier() {
  const size_t first = running / blockDim.x * blockDim.x;
  wait(first, first + blockDim.x, &Fiber::group);
}
static void __syncwarp(unsigned mask = ~0u) {
  const size_t first = running / 32 * 32 + __builtin_ctz(mask), end = first + __builtin_popcount(mask);
  wait(first, end < fibers.size() ? end : fibers.size(), &Fiber::warp);
}
template <class T>
static T __shfl_sync(unsigned mask, T x, int from, int width = 32) {
  memcpy(&fibers[running].slot, &x, sizeof x);
  __syncwarp(mask);
  T y;
  memcpy(&y, &fibers[running / width * width + from % width].slot, sizeof y);
  __syncwarp(mask);
  return y;
}
template <class F>
static unsigned of_warp(unsigned long long x, F counts) {
  fibers[running].slot = x;
  __syncwarp();
  unsigned lanes = 0;
  const size_t first = running / 32 * 32;
  for (size_t i = first; i < first + 32 && i < fibers.size(); ++i) {
    if (!fibers[i].done && counts(fibers[i].slot)) lanes |= 1u << (i - first);
  }
  __syncwarp();
  return lanes;
}
static unsigned __ballot_sync(unsigned, bool x) {
  return of_warp(x, [](unsigned long long y) { return y != 0; });
}
static unsigned __cvta_generic_to_shared(const void*) { return 0; }
template <class T>
static void __stwb(T* to, T x) {
  *to = x;
}
template <class T>
static void __stcs(T* to, T x) {
  *to = x;
}
static void (*kernel_to_run)(const void*);
static const void* arguments_to_run;
static void enter() {
  kernel_to_run(arguments_to_run);
  fibers[running].done = true;
  _longjmp(scheduler, 1);
}
extern "C" void emulate(void (*kernel)(const void*), const void* arguments, const unsigned* grid,
                        const unsigned* block) {
  constexpr size_t kStack = 64 << 10;
  kernel_to_run = kernel;
  arguments_to_run = arguments;
  blockDim = {block[0], block[1], 1};
  gridDim = {grid[0], 1, 1};
  fibers.count = block[0] * block[1];
  if (fibers.count > kMostFibers) abort();
  if (!fibers.first) fibers.first = static_cast<Fiber*>(calloc(kMostFibers, sizeof(Fiber)));
  for (unsigned b = 0; b < grid[0]; ++b) {
    blockIdx = {b, 0, 0};
    for (size_t i = 0; i < fibers.size(); ++i) {
      Fiber& f = fibers[i];
      if (!f.stack) {
        f.stack = static_cast<char*>(malloc(kStack));
        getcontext(&f.context);
      }
      f.index = {static_cast<unsigned>(i % block[0]), static_cast<unsigned>(i / block[0]), 0};
      f.begun = f.done = false;
      f.warp = f.group = f.block = 0;
      f.context.uc_stack.ss_sp = f.stack;
      f.context.uc_stack.ss_size = kStack;
      f.context.uc_link = nullptr;
      makecontext(&f.context, enter, 0);
    }
    for (size_t left = fibers.size(); left > 0;) {
      left = 0;
      for (running = 0; running < fibers.size(); ++running) {
        if (fibers[running].done) continue;
        ++left;
        threadIdx = fibers[running].index;
        resume(fibers[running]);
      }
    }
  }
}
