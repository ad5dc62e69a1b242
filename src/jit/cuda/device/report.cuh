//! A function of programs that look at indices. A slot is what reports.h says.
//@ kReport
// Who finds that a step has failed already says nothing.
static __device__ __noinline__ void report(u32* slot, u64 index, i64 limit) {
  u64* const words = reinterpret_cast<u64*>(slot);
  volatile u32* const failed = reinterpret_cast<volatile u32*>(words[2]);
  if (*failed != 0) return;
  words[0] = index;
  words[1] = static_cast<u64>(limit) + 1;
  *failed = 1;
}
//! The launch that counts a step, unless one has failed.
//@ kCount
struct CountArguments {
  const u32* failed;
  u64* count;
  u64* told;
};
KERNEL(count_step, CountArguments) {
  wait_for_kernel_before();
  if (*a.failed == 0) *a.told = ++*a.count;
}
