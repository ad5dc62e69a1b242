// Memory of tensors on a device: taken and given back in the order of its queue, from a pool of the driver's that keeps
// what is free.
#pragma once

#include <cstddef>

#include "smolder/core/buffer.h"

namespace smolder::cuda {

/// Uninitialised memory. Throws OutOfMemoryError with the size asked for, what is in use and what is free, once the
/// pool's free memory was given back in vain. Zero bytes give a buffer too.
BufferRef allocate(size_t bytes, int device);
/// Of the tensors of a device: bytes live and their peak, and bytes that the pool keeps free.
MemoryStats memory_stats(int device);
void reset_peak_memory(int device);
/// Gives free memory back to the system.
void empty_cache(int device);

/// Copies after all that was queued before. That to the host waits until it is done, that from the host until memory
/// that is not pinned has been read.
void copy_to_host(void* to, const void* from, size_t bytes, int device);
void copy_from_host(void* to, const void* from, size_t bytes, int device);

}  // namespace smolder::cuda
