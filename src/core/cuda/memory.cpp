#include "smolder/core/cuda/memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "smolder/core/cuda/mapped_range.h"
#include "smolder/core/cuda/queue.h"
#include "smolder/core/cuda/timeline.h"
#include "smolder/core/device.h"
#include "smolder/core/error.h"
#include "smolder/core/memory_history.h"

namespace smolder::cuda {
namespace {

std::array<std::atomic<Pool*>, kMaxCudaDevices> g_pools{};  ///< never destroyed: buffers may outlive any static

PoolSource source_of(int device) {
  const auto plans = std::make_shared<MappedRange>(device);
  return {[device](size_t bytes) {
            make_current(device);
            Address address = 0;
            const Status status = driver().allocate(&address, bytes);
            if (status != kOutOfMemory) check(status, "allocate");
            return status == 0 ? address : 0;
          },
          [](Address address) { driver().release(address); }, [device] { synchronize(device); },
          [plans](size_t bytes) {
            plans->grow(bytes);
            return Stretch{plans->address(), plans->bytes()};
          },
          [plans] { plans->clear(); }};
}

Pool* existing_pool(int device) {
  return device >= 0 && device < kMaxCudaDevices ? g_pools[device].load(std::memory_order_acquire) : nullptr;
}

Pool& pool_of(int device) {
  Pool* known = existing_pool(device);
  if (known) return *known;
  check_ordinal(device);
  auto* const made = new Pool(source_of(device));
  if (g_pools[device].compare_exchange_strong(known, made, std::memory_order_acq_rel)) return *made;
  delete made;
  return *known;
}

std::string mebibytes(size_t bytes) { return std::to_string(bytes / (1 << 20)) + " MiB"; }

/// The limit that `set_memory_fraction` sets on the device's memory; nothing where all of it may be had.
std::string allowed(int device) {
  const size_t limit = pool_of(device).limit();
  return limit < device_info(device).memory_bytes ? ", and this process may have " + mebibytes(limit) : "";
}

[[noreturn]] void fail(size_t bytes, int device) {
  const auto [free, total] = memory_info(device);
  const PoolStatistics s = pool_of(device).statistics();
  raise<OutOfMemoryError>("CUDA out of memory. Tried to allocate ", mebibytes(bytes), " (", bytes, " bytes). GPU ",
                          device, " has a total capacity of ", mebibytes(total), " of which ", mebibytes(free),
                          " is free", allowed(device), ". ", mebibytes(s.all.allocated.current), " in ",
                          s.all.blocks.current, " blocks are held by Smolder's tensors and plans (peak ",
                          mebibytes(s.all.allocated.peak), "), and ",
                          mebibytes(s.all.reserved.current - s.all.allocated.current),
                          " are reserved but free in pieces. Use a smaller batch or drop tensors that are no longer "
                          "needed");
}

Device device_of(const Pool::Block& block) {
  int8_t index = 0;
  while (existing_pool(index) != block.pool) ++index;
  return {DeviceType::kCUDA, index};
}

void release(void*, void* context) noexcept {
  if (is_forked()) return;  // the memory is the parent's
  auto* const block = static_cast<Pool::Block*>(context);
  if (memory_is_watched()) [[unlikely]] {
    const int64_t live = block->pool->statistics().all.allocated.current;
    note_given_back(reinterpret_cast<void*>(block->address), block->size, device_of(*block),
                    live - static_cast<int64_t>(block->size));
  }
  block->pool->give_back(block);
}

/// Pinned memory of the host. What is given back waits until the devices have read what was queued before.
class PinnedPool {
 public:
  static PinnedPool& get() {
    static auto* const pool = new PinnedPool;
    g_existing.store(pool, std::memory_order_release);
    return *pool;
  }
  static PinnedPool* existing() { return g_existing.load(std::memory_order_acquire); }

  BufferRef allocate(size_t bytes) {
    collect();
    Pool::Block* const block = pool_.take(bytes);
    if (!block) raise<OutOfMemoryError>("out of memory: cannot pin ", mebibytes(bytes), " of the host's memory");
    void* const data = reinterpret_cast<void*>(block->address);
    try {
      return std::make_shared<Buffer>(data, bytes, Device{}, &release_pinned, block);
    } catch (...) {
      pool_.give_back(block);
      throw;
    }
  }
  void empty_cache() {
    for (int device = 0; device < kMaxCudaDevices; ++device) {
      if (Queue* const queue = Queue::existing(device)) queue->stream().synchronize();
    }
    collect();
    pool_.empty_cache();
  }
  PoolStatistics statistics() { return pool_.statistics(); }
  void reset_peak() { pool_.reset_peak(); }

 private:
  /// A point of a device's queue.
  struct Point {
    int device;
    std::unique_ptr<Event> event;
  };
  /// A block that devices may still read, each until its point.
  struct Waiting {
    std::vector<Point> read;
    Pool::Block* block;
  };

  static PoolSource source() {
    return {[](size_t bytes) {
              constexpr unsigned kPortable = 1;  // pinned for every device
              make_current(current_device());
              void* data = nullptr;
              const Status status = driver().allocate_host(&data, bytes, kPortable);
              if (status != kOutOfMemory) check(status, "allocate_host");
              return status == 0 ? reinterpret_cast<Address>(data) : 0;
            },
            [](Address address) { driver().release_host(reinterpret_cast<void*>(address)); },
            [] {},  // what is in the pool has been read
            {},
            {}};
  }

  static void release_pinned(void*, void* context) noexcept {
    if (is_forked()) return;
    PinnedPool& pool = get();
    auto* const block = static_cast<Pool::Block*>(context);
    const std::lock_guard hold(pool.mutex_);
    try {
      Waiting waiting{{}, block};
      for (int device = 0; device < kMaxCudaDevices; ++device) {
        if (Queue* const queue = Queue::existing(device)) waiting.read.push_back(pool.point_of(*queue));
      }
      pool.waiting_.push_back(std::move(waiting));
    } catch (const std::exception&) {  // the block is lost: somebody may still read it
    }
  }

  void collect() {
    const std::lock_guard hold(mutex_);
    const auto passed = [](const Point& p) { return p.event->done(); };
    while (!waiting_.empty() && std::ranges::all_of(waiting_.front().read, passed)) {
      pool_.give_back(waiting_.front().block);
      for (Point& p : waiting_.front().read) events_[p.device].push_back(std::move(p.event));
      waiting_.pop_front();
    }
  }

  Point point_of(Queue& queue) {
    auto& free = events_[queue.device()];
    Point point{queue.device(), free.empty() ? std::make_unique<Event>(queue.device()) : std::move(free.back())};
    if (!free.empty()) free.pop_back();
    point.event->record(queue.stream());
    return point;
  }

  static inline std::atomic<PinnedPool*> g_existing{nullptr};
  Pool pool_{source()};
  std::mutex mutex_;
  std::deque<Waiting> waiting_;                                              ///< in the order of the queues
  std::array<std::vector<std::unique_ptr<Event>>, kMaxCudaDevices> events_;  ///< to be used again, by device
};

}  // namespace

BufferRef allocate(size_t bytes, int device, Purpose purpose) {
  fail_if_asked(bytes, {DeviceType::kCUDA, device});
  Pool::Block* const block = pool_of(device).take(bytes, purpose);
  if (!block) fail(bytes, device);
  void* const data = reinterpret_cast<void*>(block->address);
  if (memory_is_watched()) [[unlikely]]
    note_taken(data, bytes, block->size, device_of(*block), pool_of(device).statistics().all.allocated.current);
  try {
    return std::make_shared<Buffer>(data, bytes, Device(DeviceType::kCUDA, device), &release, block);
  } catch (...) {
    release(data, block);
    throw;
  }
}

BufferRef allocate_temporary(size_t bytes, int device) {
  if (Rehearsal* const r = Rehearsal::current()) r->note_memory();
  Queue& queue = Queue::of(device);
  LaneMemory* const temporaries = queue.temporaries();
  const MemoryFor use(temporaries ? "temporary of a graph" : "temporary of a library", 0);
  if (!temporaries) return allocate(bytes, device);
  if (BufferRef known = temporaries->find(queue.lane(), bytes)) return known;
  // In steps, so that what is a little larger each time does not take memory each time.
  const size_t step = std::max<size_t>(std::bit_floor(bytes) / 2, 1);
  BufferRef memory = allocate((bytes + step - 1) / step * step, device, Purpose::kGraph);
  temporaries->add(queue.lane(), memory);
  return memory;
}

void* memory_of_plans(size_t bytes, int device) {
  const Device where{DeviceType::kCUDA, static_cast<int8_t>(device)};
  fail_if_asked(bytes, where);
  Pool& pool = pool_of(device);
  const Stretch before = pool.grow_plans(0);
  const Stretch now = pool.grow_plans(bytes);
  if (memory_is_watched() && now.bytes != before.bytes) [[unlikely]] {
    const int64_t live = pool.statistics().all.allocated.current;
    const auto data = [](Stretch s) { return reinterpret_cast<void*>(s.address); };
    if (before.bytes > 0) note_given_back(data(before), before.bytes, where, live - static_cast<int64_t>(now.bytes));
    if (now.bytes > 0) note_taken(data(now), now.bytes, now.bytes, where, live);
  }
  if (now.bytes < bytes) fail(bytes, device);
  return reinterpret_cast<void*>(now.address);
}

void clear_memory_of_plans(int device) {
  Pool* const pool = existing_pool(device);
  if (!pool) return;
  const Stretch before = pool->grow_plans(0);
  pool->clear_plans();
  if (memory_is_watched() && before.bytes > 0) [[unlikely]] {
    note_given_back(reinterpret_cast<void*>(before.address), before.bytes,
                    {DeviceType::kCUDA, static_cast<int8_t>(device)}, pool->statistics().all.allocated.current);
  }
}

std::vector<Pool::Segment> pool_segments(int device) {
  Pool* const pool = existing_pool(device);
  return pool ? pool->segments() : std::vector<Pool::Segment>{};
}

PoolStatistics pool_statistics(int device) {
  Pool* const pool = existing_pool(device);
  return pool ? pool->statistics() : PoolStatistics{};
}
void reset_peak_memory(int device) {
  if (Pool* const pool = existing_pool(device)) pool->reset_peak();
}
void reset_total_memory(int device) {
  if (Pool* const pool = existing_pool(device)) pool->reset_totals();
}
void empty_cache(int device) {
  if (Pool* const pool = existing_pool(device)) pool->empty_cache();
}

void set_memory_fraction(double fraction, int device) {
  const auto total = static_cast<double>(device_info(device).memory_bytes);
  pool_of(device).set_limit(fraction < 1 ? static_cast<size_t>(fraction * total) : std::numeric_limits<size_t>::max());
}
double memory_fraction(int device) {
  const auto total = static_cast<double>(device_info(device).memory_bytes);
  return std::min(1.0, static_cast<double>(pool_of(device).limit()) / total);
}

// -- pinned memory

BufferRef allocate_pinned(size_t bytes) { return PinnedPool::get().allocate(bytes); }

bool is_pinned(const void* data) {
  constexpr int kMemoryType = 2, kHost = 1;
  if (!is_available() || is_forked()) return false;
  make_current(current_device());
  unsigned type = 0;
  const Status status = driver().pointer_attribute(&type, kMemoryType, reinterpret_cast<Address>(data));
  return status == 0 && type == kHost;  // of memory that the driver does not know it says nothing
}

void empty_pinned_cache() {
  if (PinnedPool* const pool = PinnedPool::existing()) pool->empty_cache();
}
PoolStatistics pinned_statistics() {
  PinnedPool* const pool = PinnedPool::existing();
  return pool ? pool->statistics() : PoolStatistics{};
}
void reset_peak_pinned() {
  if (PinnedPool* const pool = PinnedPool::existing()) pool->reset_peak();
}

namespace {

/// Tells the profile of a copy by the device; the host's part of it, `host`, is told, too.
Span copy_span(const char* name, size_t bytes, SpanScope& host) {
  Span span;
  span.kind = SpanKind::kCopy;
  span.name = name;
  span.bytes = static_cast<int64_t>(bytes);
  span.flow = next_flow();
  if (Span* const s = host.span()) s->flow = span.flow;
  return span;
}

}  // namespace

namespace {
std::atomic<void (*)()> g_wait_check{nullptr};
}  // namespace

void set_wait_check(void (*check)()) { g_wait_check.store(check, std::memory_order_release); }

void check_after_wait() {
  if (auto* const check = g_wait_check.load(std::memory_order_acquire)) check();
}

void copy_to_host(void* to, const void* from, size_t bytes, int device) {
  Stream& stream = Queue::of(device).stream();
  SpanScope host(SpanKind::kLaunch, "copy to host, and wait");
  {
    const TimedWork copy(stream, [&] { return std::vector{copy_span("copy to host", bytes, host)}; });
    copy_to_host(stream, to, from, bytes);
  }
  stream.synchronize();
  check_after_wait();
}

void copy_from_host(void* to, const void* from, size_t bytes, int device, bool goes_on) {
  Stream& stream = Queue::of(device).stream();
  SpanScope host(SpanKind::kLaunch, "copy from host");
  {
    const TimedWork copy(stream, [&] { return std::vector{copy_span("copy from host", bytes, host)}; });
    copy_to_device(stream, to, from, bytes);
  }
  if (!goes_on && is_pinned(from)) stream.synchronize();
}

void copy_to_peer(void* to, int to_device, const void* from, int from_device, size_t bytes) {
  Queue& queue = Queue::of(from_device);
  SpanScope host(SpanKind::kLaunch, "copy to another device");
  const TimedWork copy(queue.stream(), [&] { return std::vector{copy_span("copy to another device", bytes, host)}; });
  queue.copy_to(Queue::of(to_device), to, from, bytes);
}

void* Queue::zeros(size_t bytes) {
  constexpr size_t kApart = 256;
  const size_t taken = (bytes + kApart - 1) / kApart * kApart;
  if (!is_capturing()) return nullptr;
  if (!zeros_) {
    zeros_ = allocate(kZeros, device(), Purpose::kGraph);
    zeros_used_ = 0;
  }
  if (zeros_used_ + taken > kZeros) return nullptr;
  return static_cast<char*>(zeros_->data()) + std::exchange(zeros_used_, zeros_used_ + taken);
}

}  // namespace smolder::cuda
