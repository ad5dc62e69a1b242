// Kernels with arguments, for comparing code generators: what the compiler makes of calls of ops.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "smolder/ir/graph.h"
#include "smolder/jit/fuse/recompute.h"
#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit::test {

/// A kernel and the numbers of one launch.
struct KernelSample {
  Kernel kernel;
  std::vector<int64_t> sizes;      ///< elements of each buffer
  std::vector<bool> scratch = {};  ///< buffers that are a row of the running thread
  std::vector<int64_t> ints = {};
  std::vector<uint64_t> scalars = {};
  int64_t positions = 1;
  /// Buffers whose memory others may have: read, written. No buffer twice.
  std::vector<std::pair<int, int>> in_place = {};
};

/// The kernels of a graph for these sizes and numbers, with values recomputed within limits, if any are given. Steps
/// that libraries run are left out.
std::vector<KernelSample> kernels_of(const ir::Graph& graph, std::span<const int64_t> symbols,
                                     std::span<const uint64_t> parameters, DeviceType device = DeviceType::kCPU,
                                     const RecomputeLimits* limits = nullptr);

/// Kernels of every call in tests/golden/op_values.json, no two of them equal.
const std::vector<KernelSample>& op_kernels();

}  // namespace smolder::jit::test
