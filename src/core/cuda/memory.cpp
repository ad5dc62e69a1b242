#include "smolder/core/cuda/memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>

#include "smolder/core/cuda/queue.h"
#include "smolder/core/error.h"

namespace smolder::cuda {
namespace {

/// What tensors hold of a device.
struct Held {
  std::atomic<int64_t> live{0}, peak{0};

  void take(int64_t bytes) {
    const int64_t now = live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    int64_t most = peak.load(std::memory_order_relaxed);
    while (now > most && !peak.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
    }
  }
  void give_back(int64_t bytes) { live.fetch_sub(bytes, std::memory_order_relaxed); }
};
constexpr int kMostDevices = 64;
std::array<Held, kMostDevices> g_held;

/// The driver's pool of a device, which keeps what is free until it is asked to give it back.
DriverPool pool_of(int device) {
  static std::array<std::atomic<DriverPool>, kMostDevices> pools{};
  DriverPool pool = pools[device].load(std::memory_order_acquire);
  if (pool) return pool;
  make_current(device);
  SMOLDER_CUDA(default_pool, &pool, device);
  uint64_t keep_all = std::numeric_limits<uint64_t>::max();
  SMOLDER_CUDA(pool_set, pool, PoolAttribute::kReleaseThreshold, &keep_all);
  pools[device].store(pool, std::memory_order_release);
  return pool;
}

int64_t pool_value(int device, PoolAttribute attribute) {
  uint64_t value = 0;
  SMOLDER_CUDA(pool_get, pool_of(device), attribute, &value);
  return static_cast<int64_t>(value);
}

/// The size and the device of a block, in the word that a buffer keeps for its release.
void* pack(size_t bytes, int device) { return reinterpret_cast<void*>(bytes << 8 | static_cast<size_t>(device)); }

void release(void* data, void* context) noexcept {
  const auto word = reinterpret_cast<size_t>(context);
  const int device = static_cast<int>(word & 0xff);
  g_held[device].give_back(static_cast<int64_t>(word >> 8));
  try {
    release_async(Queue::of(device).stream(), reinterpret_cast<Address>(data));
  } catch (const std::exception&) {
    // The process is ending and the driver with it, or the device failed: its memory is gone either way.
  }
}

std::string mebibytes(int64_t bytes) { return std::to_string(bytes / (1 << 20)) + " MiB"; }

}  // namespace

BufferRef allocate(size_t bytes, int device) {
  if (bytes == 0) return wrap_foreign(nullptr, 0, {DeviceType::kCUDA, static_cast<int8_t>(device)}, {});
  Queue& queue = Queue::of(device);
  pool_of(device);
  Address address = 0;
  try {
    try {
      address = allocate_async(queue.stream(), bytes);
    } catch (const OutOfMemoryError&) {
      empty_cache(device);
      address = allocate_async(queue.stream(), bytes);
    }
  } catch (const OutOfMemoryError&) {
    const auto [free, total] = memory_info(device);
    const MemoryStats s = memory_stats(device);
    raise<OutOfMemoryError>("CUDA out of memory. Tried to allocate ", mebibytes(static_cast<int64_t>(bytes)), " (",
                            bytes, " bytes). GPU ", device, " has a total capacity of ",
                            mebibytes(static_cast<int64_t>(total)), " of which ", mebibytes(static_cast<int64_t>(free)),
                            " is free; ", mebibytes(s.live), " are live in Smolder's tensors (peak ", mebibytes(s.peak),
                            "). Use a smaller batch or drop ", "tensors that are no longer needed");
  }
  g_held[device].take(static_cast<int64_t>(bytes));
  void* const data = reinterpret_cast<void*>(address);
  void* const context = pack(bytes, device);
  try {
    return std::make_shared<Buffer>(data, bytes, Device{DeviceType::kCUDA, static_cast<int8_t>(device)}, &release,
                                    context);
  } catch (...) {
    release(data, context);
    throw;
  }
}

MemoryStats memory_stats(int device) {
  MemoryStats out;
  if (!Queue::existing(device)) return out;
  out.live = g_held[device].live.load();
  out.peak = g_held[device].peak.load();
  out.cached = pool_value(device, PoolAttribute::kReserved) - pool_value(device, PoolAttribute::kUsed);
  return out;
}

void reset_peak_memory(int device) { g_held[device].peak.store(g_held[device].live.load()); }

void empty_cache(int device) {
  Queue* const queue = Queue::existing(device);
  if (!queue) return;
  queue->stream().synchronize();
  SMOLDER_CUDA(pool_trim, pool_of(device), size_t{0});
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
