// How many threads a launch has, from a kernel's shape and its sizes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "smolder/core/cuda/driver.h"
#include "smolder/jit/cuda/shape.h"

namespace smolder::jit::cuda {

struct LaunchPlan {
  smolder::cuda::LaunchShape shape;
  int64_t tiles = 1;  ///< kColumns: blocks that share the elements of one row of positions
  /// By scratch row: where in shared memory, and its bytes; `in_memory` when there is no room for them.
  struct Row {
    int64_t offset = 0, bytes = 0;
  };
  std::vector<Row> scratch;
  bool scratch_in_memory = false;
};

/// `flat`: the root is one vector loop. `shared_limit`: what a block may have. Throws RuntimeError when there are more
/// blocks than a launch can have. Without work, the grid is empty.
LaunchPlan plan_launch(const KernelShape& shape, bool flat, std::span<const int64_t> ints, int64_t positions,
                       int64_t shared_limit);

}  // namespace smolder::jit::cuda
