// Random valid kernels, for comparing code generators.
#pragma once

#include <cstdint>
#include <vector>

#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit::test {

/// A kernel with the arguments to run it with. Buffers that it only reads want random elements.
struct RandomKernel {
  Kernel kernel;
  std::vector<int64_t> sizes;  ///< elements of each buffer
  std::vector<int64_t> ints;
  std::vector<uint64_t> scalars;
  int64_t positions = 1;  ///< extent of the root loop
  /// By buffer: elements must be small numbers (they are indices); -1 no, else how many there are to index.
  std::vector<int64_t> index_limit;
};

/// The same kernel for the same seed.
RandomKernel random_kernel(uint64_t seed);

}  // namespace smolder::jit::test
