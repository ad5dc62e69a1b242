// A kernel's schedule: its loops mapped to threads (map_threads.h), segments of sums (split_sums.h), tiles
// (transpose_tiles.h), barriers (barriers.h), elements, rows and values in registers (hold_columns.h, hold_rows.h,
// keep_values.h), rows in shared memory (stage_rows.h), loads that are made early (load_ahead.h), and what follows from
// these for the code (shape.h). It follows from the kernel alone, so that the generator, which writes
// the code, and the launch, which knows the sizes, agree.
// docs/architecture/cuda_kernels.md has the reasons.
#pragma once

#include <vector>

#include "smolder/jit/cuda/arguments.h"
#include "smolder/jit/cuda/shape.h"
#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit::cuda {

/// A kernel as its code is made: scheduled loop IR, a shape that refers to its statements, and what a call is told.
struct Schedule {
  Kernel kernel;
  KernelShape shape;
  std::vector<Argument> arguments;

  explicit Schedule(const Kernel& kernel);
  Schedule(Schedule&&) = default;
  Schedule(const Schedule&) = delete;
  /// Whether the kernel is one loop over elements, whatever their positions.
  bool is_flat() const { return kernel.root.vars.empty(); }
};

}  // namespace smolder::jit::cuda
