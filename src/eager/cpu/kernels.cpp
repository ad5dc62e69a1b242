#include "smolder/eager/cpu/kernels.h"

#include <vector>

#include "smolder/core/error.h"

namespace smolder::eager {
namespace {

using ir::Op;

/// The files with the loops are built for x86-64-v3; nothing of them may run before this.
void check_processor() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  SMOLDER_CHECK(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"),
                RuntimeError,
                "Smolder's CPU kernels need a processor with AVX2, FMA and F16C (x86-64-v3); this one "
                "lacks them");
#endif
}

std::vector<CpuKernel> list_kernels() {
  check_processor();
  std::vector<CpuKernel> all;
  for (int i = 0; i < ir::kNumElementwisePrimitives; ++i) all.push_back({static_cast<Op>(i), cpu::run_elementwise});
  for (Op op : {Op::kReshape, Op::kPermute, Op::kExpand, Op::kSlice, Op::kFlip, Op::kBarrier}) {
    all.push_back({op, cpu::run_view});
  }
  all.insert(all.end(), {{Op::kCast, cpu::run_cast},
                         {Op::kReduce, cpu::run_reduce},
                         {Op::kPad, cpu::run_pad},
                         {Op::kCat, cpu::run_cat},
                         {Op::kWideCat, cpu::run_cat},
                         {Op::kTake, cpu::run_take},
                         {Op::kGather, cpu::run_gather},
                         {Op::kIndexAdd, cpu::run_index_add},
                         {Op::kScatterAdd, cpu::run_scatter_add},
                         {Op::kScan, cpu::run_scan},
                         {Op::kIndexSet, cpu::run_index_set},
                         {Op::kSliceWrite, cpu::run_slice_write},
                         {Op::kScatterInto, cpu::run_scatter_into},
                         {Op::kSorted, cpu::run_sorted},
                         {Op::kDot, cpu::run_dot},
                         {Op::kConvForward, cpu::run_conv_forward},
                         {Op::kConvBackwardInput, cpu::run_conv_backward_input},
                         {Op::kConvBackwardWeight, cpu::run_conv_backward_weight},
                         {Op::kFftC2c, cpu::run_transform},
                         {Op::kFftR2c, cpu::run_transform},
                         {Op::kFftC2r, cpu::run_transform},
                         {Op::kIota, cpu::run_iota},
                         {Op::kRandomBits, cpu::run_random_bits}});
  return all;
}

}  // namespace

std::span<const CpuKernel> cpu_kernels() {
  static const std::vector<CpuKernel> kernels = list_kernels();
  return kernels;
}

}  // namespace smolder::eager
