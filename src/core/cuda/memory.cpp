#include "smolder/core/cuda/memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <string>

#include "smolder/core/cuda/queue.h"
#include "smolder/core/error.h"

namespace smolder::cuda {
namespace {

constexpr int kMostDevices = 64;
std::array<std::atomic<Pool*>, kMostDevices> g_pools{};  ///< never destroyed: buffers may outlive any static

PoolSource source_of(int device) {
  return {[device](size_t bytes) {
            make_current(device);
            Address address = 0;
            const Status status = driver().allocate(&address, bytes);
            if (status != kOutOfMemory) check(status, "allocate");
            return status == 0 ? address : 0;
          },
          [](Address address) { driver().release(address); }, [device] { synchronize(device); }};
}

Pool* existing_pool(int device) {
  return device >= 0 && device < kMostDevices ? g_pools[device].load(std::memory_order_acquire) : nullptr;
}

Pool& pool_of(int device) {
  SMOLDER_CHECK(device >= 0 && device < kMostDevices, RuntimeError, "there is no device cuda:", device);
  Pool* known = existing_pool(device);
  if (known) return *known;
  device_info(device);  // raises where there is none
  auto* const made = new Pool(source_of(device));
  if (g_pools[device].compare_exchange_strong(known, made, std::memory_order_acq_rel)) return *made;
  delete made;
  return *known;
}

std::string mebibytes(size_t bytes) { return std::to_string(bytes / (1 << 20)) + " MiB"; }

[[noreturn]] void fail(size_t bytes, int device) {
  const auto [free, total] = memory_info(device);
  const PoolStatistics s = pool_of(device).statistics();
  raise<OutOfMemoryError>("CUDA out of memory. Tried to allocate ", mebibytes(bytes), " (", bytes, " bytes). GPU ",
                          device, " has a total capacity of ", mebibytes(total), " of which ", mebibytes(free),
                          " is free. ", mebibytes(s.allocated.current), " in ", s.blocks.current,
                          " blocks are held by Smolder's tensors and plans (peak ", mebibytes(s.allocated.peak),
                          "), and ", mebibytes(s.reserved.current - s.allocated.current),
                          " are reserved but free in pieces. Use a smaller batch or drop tensors that are no longer "
                          "needed");
}

void release(void*, void* context) noexcept {
  if (is_forked()) return;  // the memory is the parent's
  auto* const block = static_cast<Pool::Block*>(context);
  block->pool->give_back(block);
}

}  // namespace

BufferRef allocate(size_t bytes, int device) {
  Pool::Block* const block = pool_of(device).take(bytes);
  if (!block) fail(bytes, device);
  void* const data = reinterpret_cast<void*>(block->address);
  try {
    return std::make_shared<Buffer>(data, bytes, Device{DeviceType::kCUDA, static_cast<int8_t>(device)}, &release,
                                    block);
  } catch (...) {
    release(data, block);
    throw;
  }
}

BufferRef allocate_temporary(size_t bytes, int device) {
  Queue& queue = Queue::of(device);
  LaneMemory* const temporaries = queue.temporaries();
  if (!temporaries) return allocate(bytes, device);
  if (BufferRef known = temporaries->find(queue.lane(), bytes)) return known;
  // In steps, so that what is a little larger each time does not take memory each time.
  const size_t step = std::max<size_t>(std::bit_floor(bytes) / 2, 1);
  BufferRef memory = allocate((bytes + step - 1) / step * step, device);
  temporaries->add(queue.lane(), memory);
  return memory;
}

PoolStatistics pool_statistics(int device) {
  Pool* const pool = existing_pool(device);
  return pool ? pool->statistics() : PoolStatistics{};
}
void reset_peak_memory(int device) {
  if (Pool* const pool = existing_pool(device)) pool->reset_peak();
}
void empty_cache(int device) {
  if (Pool* const pool = existing_pool(device)) pool->empty_cache();
}

void copy_to_host(void* to, const void* from, size_t bytes, int device) {
  Stream& stream = Queue::of(device).stream();
  copy_to_host(stream, to, from, bytes);
  stream.synchronize();
}

void copy_from_host(void* to, const void* from, size_t bytes, int device) {
  copy_to_device(Queue::of(device).stream(), to, from, bytes);
}

}  // namespace smolder::cuda
