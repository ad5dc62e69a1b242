// Memory of tensors on a device, from a caching pool in the order of the device's queue: what is given back may be
// handed out again at once, since whatever still uses it was queued before whatever will.
#pragma once

#include <cstddef>
#include <vector>

#include "smolder/core/buffer.h"
#include "smolder/core/cuda/pool.h"

namespace smolder::cuda {

/// Uninitialised memory. Throws OutOfMemoryError with the size asked for, what is in use and what is free, once the
/// pool's free memory was given back in vain. Zero bytes give a readable address too.
BufferRef allocate(size_t bytes, int device, Purpose purpose = Purpose::kTensor);
/// The same for work that is being queued, which may drop it as soon as the work is queued: when a graph is being
/// captured the graph keeps it, and gives it to what follows on the lane.
BufferRef allocate_temporary(size_t bytes, int device);

/// At least `bytes` of the one stretch of memory that plans keep intermediates in, whose contents stay undefined. Its
/// address stays while it grows (but on a device that cannot map memory), until the process ends. Throws
/// OutOfMemoryError, and then it is as it was.
void* memory_of_plans(size_t bytes, int device);
/// Gives it back to the driver once nothing uses it; the address stays.
void clear_memory_of_plans(int device);

/// Memory of the host that the device reads while the host goes on. What a buffer's memory is copied from serves the
/// next once that is done. Throws OutOfMemoryError.
BufferRef allocate_pinned(size_t bytes);
/// Whether memory of the host is pinned, by whomever. False without a driver.
bool is_pinned(const void* data);
/// Gives pinned memory that nobody holds back to the system.
void empty_pinned_cache();
PoolStatistics pinned_statistics();
/// Lets peaks of pinned memory start from what is held now.
void reset_peak_pinned();

/// Statistics of the pool of a device.
PoolStatistics pool_statistics(int device);
std::vector<Pool::Segment> pool_segments(int device);
/// Lets peaks start from what is held now.
void reset_peak_memory(int device);
/// Lets totals start from nothing.
void reset_total_memory(int device);
/// The share of the device's memory that the pool may take, from 0 to 1.
void set_memory_fraction(double fraction, int device);
double memory_fraction(int device);
/// Gives free memory back to the driver.
void empty_cache(int device);

/// Has `check` called, once the host has waited for a device and before it takes what is there for good: it may throw.
void set_wait_check(void (*check)());
void check_after_wait();

/// Copies after all that was queued before. That to the host waits until it is done, that from the host until the
/// memory has been read, unless it is pinned and the caller `goes_on`.
void copy_to_host(void* to, const void* from, size_t bytes, int device);
void copy_from_host(void* to, const void* from, size_t bytes, int device, bool goes_on = false);
/// To memory of another device, after all that both were given before; what they are given from now on comes after it.
/// The host goes on.
void copy_to_peer(void* to, int to_device, const void* from, int from_device, size_t bytes);

}  // namespace smolder::cuda
