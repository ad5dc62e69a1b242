// Kernels with arguments, for comparing code generators: what the compiler makes of calls of ops.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "jit/kernel_test_util.h"
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

/// Copies of buffers, and where they are: at one place where two are in place, nowhere where `given` has none.
struct Copies {
  std::vector<Array> arrays;
  std::vector<void*> places;

  Copies(const KernelSample& s, const std::vector<Array>& of, const std::vector<void*>& given) {
    for (size_t b = 0; b < of.size(); ++b) {
      arrays.push_back(of[b].clone());
      places.push_back(given[b] ? arrays[b].data() : nullptr);
    }
    for (const auto& [read, written] : s.in_place) places[written] = places[read];
  }
  /// Puts what was written in place where it belongs, and what was read back.
  void part(const KernelSample& s, const std::vector<Array>& before) {
    for (const auto& [read, written] : s.in_place) {
      std::memcpy(arrays[written].data(), arrays[read].data(), arrays[read].bytes());
      arrays[read] = before[read].clone();
    }
  }
};

}  // namespace smolder::jit::test
