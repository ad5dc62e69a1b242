#include "smolder/jit/cuda/schedule.h"

#include "smolder/jit/cuda/barriers.h"
#include "smolder/jit/cuda/map_threads.h"
#include "smolder/jit/cuda/split_sums.h"
#include "smolder/jit/cuda/transpose_tiles.h"

namespace smolder::jit::cuda {

Schedule::Schedule(const Kernel& k) : kernel(k) {
  map_threads(kernel);
  split_sums(kernel);
  transpose_tiles(kernel);
  insert_barriers(kernel);
  shape = shape_of(kernel);
  arguments = arguments_of(kernel, shape);
}

RowSize row_size(const Kernel& kernel, std::span<const int64_t> ints) {
  const Schedule schedule(kernel);
  return row_size(schedule.kernel, schedule.shape, ints);
}

IntRef row_extent(const Kernel& kernel) {
  const Schedule schedule(kernel);
  return schedule.shape.has_row_size() ? schedule.shape.thread_loops[0]->extents[0] : IntRef{};
}

}  // namespace smolder::jit::cuda
