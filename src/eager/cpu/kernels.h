// The CPU kernels, one for each primitive that computes or moves something.
#pragma once

#include <span>

#include "smolder/ir/op.h"

namespace smolder::eager {

struct KernelCall;

struct CpuKernel {
  ir::Op op;
  void (*run)(const KernelCall&);
};

/// All of them. Throws RuntimeError when the processor lacks instructions they are built with.
std::span<const CpuKernel> cpu_kernels();

namespace cpu {

void run_elementwise(const KernelCall& call);           ///< every elementwise primitive
void run_cast(const KernelCall& call);                  ///< cast
void run_reduce(const KernelCall& call);                ///< reduce, in the order of docs/architecture/arithmetic.md
void run_view(const KernelCall& call);                  ///< reshape, permute, expand, slice, flip, barrier: copies
void run_pad(const KernelCall& call);                   ///< pad
void run_cat(const KernelCall& call);                   ///< cat
void run_take(const KernelCall& call);                  ///< take
void run_gather(const KernelCall& call);                ///< gather
void run_index_add(const KernelCall& call);             ///< index_add
void run_index_set(const KernelCall& call);             ///< index_set
void run_slice_write(const KernelCall& call);           ///< slice_write
void run_scan(const KernelCall& call);                  ///< scan
void run_scatter_into(const KernelCall& call);          ///< scatter_into
void run_sorted(const KernelCall& call);                ///< sorted
void run_scatter_add(const KernelCall& call);           ///< scatter_add
void run_dot(const KernelCall& call);                   ///< dot
void run_conv_forward(const KernelCall& call);          ///< conv_forward
void run_conv_backward_input(const KernelCall& call);   ///< conv_backward_input
void run_conv_backward_weight(const KernelCall& call);  ///< conv_backward_weight
void run_transform(const KernelCall& call);             ///< fft_c2c, fft_r2c, fft_c2r
void run_iota(const KernelCall& call);                  ///< iota
void run_random_bits(const KernelCall& call);           ///< random_bits

}  // namespace cpu
}  // namespace smolder::eager
