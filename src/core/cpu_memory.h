// The CPU's allocator in numbers, as CUDA's pool has them.
#pragma once

#include "smolder/core/buffer.h"
#include "smolder/core/cuda/pool.h"

namespace smolder {

/// Memory that `allocate` gives on the CPU.
BufferRef allocate_on_cpu(size_t bytes);

/// Each block is a segment of its own: nothing is split. What was asked for is not counted.
cuda::PoolStatistics cpu_pool_statistics();
/// Lets totals start from nothing.
void reset_cpu_totals();

}  // namespace smolder
