#include "smolder/core/cuda/memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <set>
#include <sstream>
#include <vector>

#include "smolder/core/cuda/queue.h"
#include "smolder/core/error.h"

namespace smolder::cuda {
namespace {

constexpr size_t kGranule = 512;             // of every block
constexpr size_t kSmall = 1 << 20;           // requests up to here share segments of
constexpr size_t kSmallSegment = 2 << 20;    // this size,
constexpr size_t kMedium = 10 << 20;         // those up to here segments of
constexpr size_t kMediumSegment = 20 << 20;  // this size, and larger ones have their own, of a multiple of
constexpr size_t kSegmentGranule = 2 << 20;  // this
constexpr size_t kLargestRequest = 1ull << 60;

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }
size_t segment_bytes(size_t size) {
  return size <= kSmall ? kSmallSegment : size <= kMedium ? kMediumSegment : round_up(size, kSegmentGranule);
}

class Pool;

/// A stretch of a segment. Neighbours that are both free are one.
struct Block {
  Pool* pool;
  Address address;
  size_t size;
  bool small;
  bool free = true;
  Block *before = nullptr, *after = nullptr;  ///< in the segment
};

/// The smallest that fits, of those the lowest: a loop that allocates the same sizes in the same order finds the same
/// addresses again, which lets its graph be replayed.
struct BySize {
  using is_transparent = void;
  bool operator()(const Block* a, const Block* b) const {
    return a->size != b->size ? a->size < b->size : a->address < b->address;
  }
  bool operator()(const Block* a, size_t size) const { return a->size < size; }
  bool operator()(size_t size, const Block* a) const { return size < a->size; }
};

void add(Statistic& s, int64_t n) {
  s.current += n;
  s.peak = std::max(s.peak, s.current);
  if (n > 0) s.total += n;
}

std::string mebibytes(int64_t bytes) { return std::to_string(bytes / (1 << 20)) + " MiB"; }

/// Never destroyed: buffers may outlive any static. Segments and splitting as in PyTorch's caching allocator.
class Pool {
 public:
  explicit Pool(int device) : device_(device) {}
  static Pool& of(int device);

  Block* take(size_t bytes) {
    if (bytes > kLargestRequest) fail(bytes);
    const size_t size = round_up(std::max<size_t>(bytes, 1), kGranule);
    const std::lock_guard hold(lock_);
    Block* block = find(size);
    if (!block) block = new_segment(size);
    if (!block) {
      ++statistics_.retries;
      release_free_segments();
      block = new_segment(size);
    }
    if (!block) {
      ++statistics_.failures;
      fail(bytes);
    }
    free_of(block->small).erase(block);
    const size_t rest = block->size - size;
    if (block->small ? rest >= kGranule : rest > kSmall) split(block, size);
    block->free = false;
    add(statistics_.allocated, static_cast<int64_t>(block->size));
    add(statistics_.blocks, 1);
    return block;
  }

  void give_back(Block* block) {
    const std::lock_guard hold(lock_);
    add(statistics_.allocated, -static_cast<int64_t>(block->size));
    add(statistics_.blocks, -1);
    block->free = true;
    if (block->after && block->after->free) absorb(block, block->after);
    if (Block* const before = block->before; before && before->free) {
      free_of(before->small).erase(before);
      absorb(before, block);
      block = before;
    }
    free_of(block->small).insert(block);
  }

  PoolStatistics statistics() {
    const std::lock_guard hold(lock_);
    return statistics_;
  }
  void reset_peak() {
    const std::lock_guard hold(lock_);
    for (Statistic* s : {&statistics_.allocated, &statistics_.reserved, &statistics_.blocks}) s->peak = s->current;
  }
  void empty_cache() {
    const std::lock_guard hold(lock_);
    release_free_segments();
  }

 private:
  using Free = std::set<Block*, BySize>;
  Free& free_of(bool small) { return small ? small_ : large_; }

  Block* find(size_t size) {
    Free& free = free_of(size <= kSmall);
    const auto at = free.lower_bound(size);
    return at == free.end() ? nullptr : *at;
  }

  /// Null when the driver has none left.
  Block* new_segment(size_t size) {
    const size_t bytes = segment_bytes(size);
    make_current(device_);
    Address address = 0;
    const Status status = driver().allocate(&address, bytes);
    if (status == kOutOfMemory) return nullptr;
    check(status, "allocate");
    add(statistics_.reserved, static_cast<int64_t>(bytes));
    auto* const block = new Block{this, address, bytes, size <= kSmall};
    free_of(block->small).insert(block);
    return block;
  }

  void split(Block* block, size_t size) {
    auto* const rest =
        new Block{this, block->address + size, block->size - size, block->small, true, block, block->after};
    if (rest->after) rest->after->before = rest;
    block->after = rest;
    block->size = size;
    free_of(rest->small).insert(rest);
  }

  /// Makes `next`, which lies after `block`, part of it. `block` is in no set.
  void absorb(Block* block, Block* next) {
    if (next->free) free_of(next->small).erase(next);
    block->size += next->size;
    block->after = next->after;
    if (block->after) block->after->before = block;
    delete next;
  }

  void release_free_segments() {
    make_current(device_);
    synchronize(device_);  // what was given back may still be in use
    for (Free* free : {&small_, &large_}) {
      for (auto at = free->begin(); at != free->end();) {
        Block* const block = *at;
        if (block->before || block->after) {
          ++at;
          continue;
        }
        at = free->erase(at);
        driver().release(block->address);
        add(statistics_.reserved, -static_cast<int64_t>(block->size));
        delete block;
      }
    }
  }

  [[noreturn]] void fail(size_t bytes) const {
    const auto [free, total] = memory_info(device_);
    const PoolStatistics& s = statistics_;
    raise<OutOfMemoryError>(
        "CUDA out of memory. Tried to allocate ", mebibytes(static_cast<int64_t>(bytes)), " (", bytes, " bytes). GPU ",
        device_, " has a total capacity of ", mebibytes(static_cast<int64_t>(total)), " of which ",
        mebibytes(static_cast<int64_t>(free)), " is free. ", mebibytes(s.allocated.current), " in ", s.blocks.current,
        " blocks are held by Smolder's tensors and plans (peak ", mebibytes(s.allocated.peak), "), and ",
        mebibytes(s.reserved.current - s.allocated.current),
        " are reserved but free in pieces. Use a smaller batch or drop tensors that are no longer needed");
  }

  const int device_;
  std::mutex lock_;
  Free small_, large_;
  PoolStatistics statistics_;
};

constexpr int kMostDevices = 64;
std::array<std::atomic<Pool*>, kMostDevices> g_pools{};

Pool& Pool::of(int device) {
  SMOLDER_CHECK(device >= 0 && device < kMostDevices, RuntimeError, "there is no device cuda:", device);
  Pool* known = g_pools[device].load(std::memory_order_acquire);
  if (known) return *known;
  device_info(device);  // raises where there is none
  auto* const made = new Pool(device);
  if (g_pools[device].compare_exchange_strong(known, made, std::memory_order_acq_rel)) return *made;
  delete made;
  return *known;
}

Pool* existing_pool(int device) {
  return device >= 0 && device < kMostDevices ? g_pools[device].load(std::memory_order_acquire) : nullptr;
}

void release(void*, void* context) noexcept {
  if (is_forked()) return;  // the memory is the parent's
  auto* const block = static_cast<Block*>(context);
  block->pool->give_back(block);
}

}  // namespace

BufferRef allocate(size_t bytes, int device) {
  Block* const block = Pool::of(device).take(bytes);
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
  BufferRef memory = allocate(bytes, device);
  Queue::of(device).keep(memory);
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
