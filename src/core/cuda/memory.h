// Memory of tensors on a device, from a caching pool in the order of the device's queue: what is given back may be
// handed out again at once, since whatever still uses it was queued before whatever will.
#pragma once

#include <cstddef>

#include "smolder/core/buffer.h"
#include "smolder/core/cuda/pool.h"

namespace smolder::cuda {

/// Uninitialised memory. Throws OutOfMemoryError with the size asked for, what is in use and what is free, once the
/// pool's free memory was given back in vain. Zero bytes give a readable address too.
BufferRef allocate(size_t bytes, int device);
/// The same for work that is being queued, which may drop it as soon as the work is queued: when a graph is being
/// captured the graph keeps it, and gives it to what follows on the lane.
BufferRef allocate_temporary(size_t bytes, int device);

/// Of the pool of a device.
PoolStatistics pool_statistics(int device);
/// Lets peaks start from what is held now.
void reset_peak_memory(int device);
/// Gives free memory back to the driver.
void empty_cache(int device);

/// Copies after all that was queued before. That to the host waits until it is done, that from the host until memory
/// that is not pinned has been read.
void copy_to_host(void* to, const void* from, size_t bytes, int device);
void copy_from_host(void* to, const void* from, size_t bytes, int device);

}  // namespace smolder::cuda
