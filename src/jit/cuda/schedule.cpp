#include "smolder/jit/cuda/schedule.h"

#include "smolder/jit/cuda/barriers.h"
#include "smolder/jit/cuda/hold_columns.h"
#include "smolder/jit/cuda/hold_rows.h"
#include "smolder/jit/cuda/keep_values.h"
#include "smolder/jit/cuda/load_ahead.h"
#include "smolder/jit/cuda/map_threads.h"
#include "smolder/jit/cuda/split_sums.h"
#include "smolder/jit/cuda/stage_rows.h"
#include "smolder/jit/cuda/transpose_tiles.h"

namespace smolder::jit::cuda {

Schedule::Schedule(const Kernel& k) : kernel(k) {
  map_threads(kernel);
  split_sums(kernel);
  transpose_tiles(kernel);
  insert_barriers(kernel);
  hold_columns(kernel);
  hold_rows(kernel);
  keep_values(kernel);
  stage_rows(kernel);
  load_ahead(kernel);
  shape = shape_of(kernel);
  arguments = arguments_of(kernel, shape);
}

}  // namespace smolder::jit::cuda
