// How many threads a launch has, from a kernel's schedule and its sizes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "smolder/core/cuda/driver.h"
#include "smolder/jit/backend.h"
#include "smolder/jit/cuda/schedule.h"

namespace smolder::jit::cuda {

struct LaunchPlan {
  smolder::cuda::LaunchShape shape;
  int64_t tiles = 1;  ///< columns: blocks that share the elements of one row of positions
  /// By shared row of the kernel: where in shared memory, and its bytes; `in_memory` when there is no room for them.
  struct Row {
    int64_t offset = 0, bytes = 0;
  };
  std::vector<Row> scratch;
  bool scratch_in_memory = false;
  /// By sum of a split loop: the place of what a segment comes to (an offset of -1 where that is in registers, or there
  /// is no room).
  std::vector<Row> slots;
  std::vector<Row> common_rows, staged_rows;  ///< -1 where there is no room
  int64_t groups = 1;                         ///< columns: that share the segments of a position
  int64_t segment = 1;                        ///< iterations of a segment
  int64_t segments = 1;                       ///< rows: of a round, in slots of their own
  int64_t chunks = 1;                         ///< columns: that a thread takes one after the other
};

/// Throws RuntimeError when there are more blocks than a launch can have. Without work, the grid is empty. Where the
/// kernel has `together`, blocks have as many threads as those of other calls, where they can.
LaunchPlan plan_launch(const Schedule& schedule, std::span<const int64_t> ints, int64_t positions,
                       const smolder::cuda::DeviceInfo& device);

/// A plan and the words of the arguments.
class Launch {
 public:
  Launch(const Schedule& schedule, const KernelArguments& call, const smolder::cuda::DeviceInfo& device);

  const LaunchPlan& plan() const { return plan_; }
  bool empty() const { return plan_.shape.grid[0] == 0; }
  std::vector<int64_t>& words() { return words_; }
  /// Memory of the device that scratch rows need, in bytes; 0 where shared memory holds them. Then `place_scratch`.
  int64_t scratch_bytes() const { return scratch_bytes_; }
  void place_scratch(int64_t address);

 private:
  int64_t word(const Argument& x, const Schedule& schedule, const KernelArguments& call, std::span<const int64_t> ints);
  int64_t take_memory(int64_t bytes);

  LaunchPlan plan_;
  std::vector<int64_t> words_;
  int64_t scratch_bytes_ = 0;
  struct Placed {
    size_t word;     ///< of the buffer
    int64_t offset;  ///< into the scratch memory
  };
  std::vector<Placed> placed_;
};

}  // namespace smolder::jit::cuda
