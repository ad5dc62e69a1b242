// The caching CPU allocator. Small blocks come from malloc and wait in one free list a size class;
// big blocks are mapped and wait in one list sorted by size, where the best fit within a quarter is
// taken. Nothing is split or merged: a training step asks for the same sizes again and again.
#include "smolder/core/cpu_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "smolder/core/error.h"
#include "smolder/core/fork.h"
#include "smolder/core/memory_history.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

namespace smolder {
namespace {

constexpr size_t kKiB = 1024, kMiB = 1024 * kKiB;
/// Larger blocks are mapped.
constexpr size_t kSmallLimit = 1 * kMiB;
/// Mapped sizes are multiples of this, so that nearly equal requests find each other's blocks.
constexpr size_t kBigGranule = 64 * kKiB;
constexpr size_t kHugePage = 2 * kMiB;
constexpr size_t kLargestRequest = size_t{1} << 62;
/// Freed bytes always kept; above this, never more than have been live at once.
constexpr int64_t kAlwaysCached = 256 * kMiB;

// Size classes: 64, 128, 192, 256, then four a doubling to 1 MiB: at most a quarter is wasted.
constexpr int kNumClasses = 52;

constexpr int class_of(size_t bytes) {
  if (bytes <= 256) return bytes == 0 ? 0 : static_cast<int>((bytes - 1) / 64);
  const int e = std::bit_width(bytes - 1) - 1;  // 2^e < bytes <= 2^(e+1)
  const size_t step = size_t{1} << (e - 2);
  return 4 + (e - 8) * 4 + static_cast<int>((bytes - (size_t{1} << e) - 1) / step);
}
constexpr size_t class_size(int c) {
  if (c < 4) return 64 * static_cast<size_t>(c + 1);
  const int e = 8 + (c - 4) / 4;
  return (size_t{1} << e) + (static_cast<size_t>((c - 4) % 4) + 1) * (size_t{1} << (e - 2));
}
static_assert(class_of(kSmallLimit) == kNumClasses - 1 && class_size(kNumClasses - 1) == kSmallLimit);
static_assert(class_of(257) == 4 && class_size(4) == 320 && class_of(321) == 5);

/// Maps `size` bytes, on a huge-page border when it holds one. Null when the system refuses.
void* map_pages(size_t size) {
  const size_t slack = size >= kHugePage ? kHugePage : 0;
  void* raw = mmap(nullptr, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  if (slack == 0) return raw;
  const auto at = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t aligned = (at + kHugePage - 1) & ~(kHugePage - 1);
  if (aligned != at) munmap(raw, aligned - at);
  if (aligned - at != slack) munmap(reinterpret_cast<void*>(aligned + size), slack - (aligned - at));
  madvise(reinterpret_cast<void*>(aligned), size, MADV_HUGEPAGE);  // a hint: failing costs speed alone
  return reinterpret_cast<void*>(aligned);
}

std::string human(double bytes) {
  static constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024;
  std::ostringstream out;
  out.precision(4);
  out << bytes << ' ' << kUnits[unit];
  return out.str();
}

/// The allocator. One lock guards every member; it is held over malloc and mmap, which only a size not
/// seen before reaches. Never destroyed: buffers may outlive any static.
class CpuPool {
 public:
  static CpuPool& get() {
    static auto* const pool = new CpuPool;
    return *pool;
  }

  BufferRef allocate(size_t bytes) { return bytes <= kSmallLimit ? allocate_small(bytes) : allocate_big(bytes); }

  void empty_cache() {
    std::lock_guard hold(lock_);
    drop_all_cached();
  }

  MemoryStats stats() {
    std::lock_guard hold(lock_);
    return stats_;
  }
  void reset_peak() {
    std::lock_guard hold(lock_);
    stats_.peak = stats_.live;
    each_statistic([](cuda::Statistic& s) { s.peak = s.current; });
  }
  void reset_totals() {
    std::lock_guard hold(lock_);
    each_statistic([](cuda::Statistic& s) { s.total = s.current; });
    counts_.retries = counts_.failures = counts_.takes = counts_.returns = 0;
  }
  cuda::PoolStatistics counts() {
    std::lock_guard hold(lock_);
    return counts_;
  }

 private:
  /// Lives in the first bytes of a free small block.
  struct FreeBlock {
    FreeBlock* next;
  };
  /// A mapped block, live or free; made with the mapping and deleted with it, so freeing never allocates.
  struct BigBlock {
    void* data;
    size_t size;
    uint64_t freed_at = 0;
  };

  BufferRef allocate_small(size_t bytes) {
    const int c = class_of(bytes);
    void* const context = reinterpret_cast<void*>(static_cast<uintptr_t>(c));
    void* data = take_small(c);
    if (!data) refuse(bytes);
    if (memory_is_watched()) [[unlikely]]
      note_taken(data, bytes, class_size(c), {}, stats().live);
    return hand_out(data, bytes, &release_small, context);
  }

  BufferRef allocate_big(size_t bytes) {
    if (bytes > kLargestRequest) refuse(bytes);
    BigBlock* block = take_big((bytes + kBigGranule - 1) / kBigGranule * kBigGranule);
    if (!block) refuse(bytes);
    if (memory_is_watched()) [[unlikely]]
      note_taken(block->data, bytes, block->size, {}, stats().live);
    return hand_out(block->data, bytes, &release_big, block);
  }

  /// Wraps a taken block; gives it back if there is no memory for the handle.
  static BufferRef hand_out(void* data, size_t bytes, Buffer::ReleaseFn release, void* context) {
    try {
      return std::make_shared<Buffer>(data, bytes, Device{}, release, context);
    } catch (...) {
      release(data, context);
      throw;
    }
  }

  void each_statistic(auto&& f) {
    using Part = cuda::PoolPart;
    for (Part* part : {&counts_.all, &counts_.large, &counts_.small}) {
      for (const auto kind : {&Part::allocated, &Part::blocks, &Part::reserved, &Part::segments}) f(part->*kind);
    }
  }

  void add(cuda::Statistic cuda::PoolPart::* what, bool small, int64_t n) {
    for (cuda::PoolPart* part : {&counts_.all, small ? &counts_.small : &counts_.large}) {
      cuda::Statistic& s = part->*what;
      s.current += n;
      s.peak = std::max(s.peak, s.current);
      if (n > 0) s.total += n;
    }
  }
  /// Notes memory taken from the system, or given back (`sign` -1).
  void count_reserved(size_t size, bool small, int sign) {
    add(&cuda::PoolPart::reserved, small, sign * static_cast<int64_t>(size));
    add(&cuda::PoolPart::segments, small, sign);
    ++(sign > 0 ? counts_.takes : counts_.returns);
  }

  [[noreturn]] void refuse(size_t bytes) {
    const MemoryStats s = stats();
    {
      std::lock_guard hold(lock_);
      ++counts_.failures;
    }
    raise<OutOfMemoryError>("out of memory: cannot allocate ", bytes, " bytes (", human(static_cast<double>(bytes)),
                            ") on cpu; ", human(static_cast<double>(s.live)), " are live in Smolder's tensors (peak ",
                            human(static_cast<double>(s.peak)),
                            ") and the cache is empty. Use a smaller batch or drop tensors that are no longer needed");
  }

  void* take_small(int c) {
    const size_t size = class_size(c);
    std::lock_guard hold(lock_);
    void* data = small_[c];
    if (data) {
      ASAN_UNPOISON_MEMORY_REGION(data, size);
      small_[c] = small_[c]->next;
      stats_.cached -= static_cast<int64_t>(size);
    } else {
      data = std::aligned_alloc(kAlignment, size);
      if (!data) {
        ++counts_.retries;
        drop_all_cached();
        data = std::aligned_alloc(kAlignment, size);
      }
      if (!data) return nullptr;
      count_reserved(size, true, 1);
    }
    count_taken(size, true);
    return data;
  }

  BigBlock* take_big(size_t size) {
    std::lock_guard hold(lock_);
    auto fit = std::lower_bound(big_.begin(), big_.end(), size, [](BigBlock* b, size_t s) { return b->size < s; });
    BigBlock* block;
    if (fit != big_.end() && (*fit)->size <= size + size / 4) {
      block = *fit;
      big_.erase(fit);
      stats_.cached -= static_cast<int64_t>(block->size);
      ASAN_UNPOISON_MEMORY_REGION(block->data, block->size);
    } else {
      block = map_block(size);
      if (!block) return nullptr;
    }
    count_taken(block->size, false);
    return block;
  }

  BigBlock* map_block(size_t size) {
    big_.reserve(static_cast<size_t>(mapped_) + 1);  // room for every block that can ever be freed
    auto block = std::make_unique<BigBlock>();
    block->data = map_pages(size);
    if (!block->data) {
      ++counts_.retries;
      drop_all_cached();
      block->data = map_pages(size);
    }
    if (!block->data) return nullptr;
    block->size = size;
    ++mapped_;
    count_reserved(size, false, 1);
    return block.release();
  }

  static void note_release(const void* data, size_t size) noexcept {
    if (!memory_is_watched()) [[likely]]
      return;
    note_given_back(data, size, {}, get().stats().live - static_cast<int64_t>(size));
  }

  static void release_small(void* data, void* context) noexcept {
    CpuPool& pool = get();
    const int c = static_cast<int>(reinterpret_cast<uintptr_t>(context));
    const size_t size = class_size(c);
    note_release(data, size);
    std::lock_guard hold(pool.lock_);
    pool.small_[c] = new (data) FreeBlock{pool.small_[c]};
    ASAN_POISON_MEMORY_REGION(static_cast<char*>(data) + sizeof(FreeBlock), size - sizeof(FreeBlock));
    pool.count_given_back(size, true);
  }

  static void release_big(void*, void* context) noexcept {
    CpuPool& pool = get();
    auto* block = static_cast<BigBlock*>(context);
    note_release(block->data, block->size);
    std::lock_guard hold(pool.lock_);
    block->freed_at = ++pool.clock_;
    const auto at = std::upper_bound(pool.big_.begin(), pool.big_.end(), block->size,
                                     [](size_t s, BigBlock* b) { return s < b->size; });
    pool.big_.insert(at, block);
    ASAN_POISON_MEMORY_REGION(block->data, block->size);
    pool.count_given_back(block->size, false);
    while (pool.stats_.cached > std::max(kAlwaysCached, pool.high_water_) && !pool.big_.empty()) pool.drop_oldest();
  }

  void drop_oldest() {
    const auto oldest =
        std::min_element(big_.begin(), big_.end(), [](BigBlock* a, BigBlock* b) { return a->freed_at < b->freed_at; });
    unmap(*oldest);
    big_.erase(oldest);
  }

  void unmap(BigBlock* block) {
    ASAN_UNPOISON_MEMORY_REGION(block->data, block->size);
    munmap(block->data, block->size);
    stats_.cached -= static_cast<int64_t>(block->size);
    count_reserved(block->size, false, -1);
    --mapped_;
    delete block;
  }

  void drop_all_cached() {
    for (BigBlock* block : big_) unmap(block);
    big_.clear();
    for (int c = 0; c < kNumClasses; ++c) {
      while (FreeBlock* block = small_[c]) {
        ASAN_UNPOISON_MEMORY_REGION(block, class_size(c));
        small_[c] = block->next;
        std::free(block);
        stats_.cached -= static_cast<int64_t>(class_size(c));
        count_reserved(class_size(c), true, -1);
      }
    }
  }

  void count_taken(size_t size, bool small) {
    add(&cuda::PoolPart::allocated, small, static_cast<int64_t>(size));
    add(&cuda::PoolPart::blocks, small, 1);
    stats_.live += static_cast<int64_t>(size);
    stats_.peak = std::max(stats_.peak, stats_.live);
    high_water_ = std::max(high_water_, stats_.live);
  }
  void count_given_back(size_t size, bool small) {
    add(&cuda::PoolPart::allocated, small, -static_cast<int64_t>(size));
    add(&cuda::PoolPart::blocks, small, -1);
    stats_.live -= static_cast<int64_t>(size);
    stats_.cached += static_cast<int64_t>(size);
  }

  ForkMutex lock_;
  std::array<FreeBlock*, kNumClasses> small_{};
  std::vector<BigBlock*> big_;  ///< free mapped blocks by size; equal sizes newest last
  int64_t mapped_ = 0;          ///< big blocks that exist, live or free
  uint64_t clock_ = 0;          ///< counts frees, to find the block free for longest
  int64_t high_water_ = 0;      ///< most bytes ever live; unlike the peak, never reset
  MemoryStats stats_;
  cuda::PoolStatistics counts_;  ///< the same, and more, in large blocks and small ones
};
/// Made before any lock is held, as its lock asks.
[[maybe_unused]] const CpuPool& g_made = CpuPool::get();

std::atomic<int64_t> fail_in{0};

/// True when the test hook's countdown ends at this allocation.
bool must_fail() {
  if (fail_in.load(std::memory_order_relaxed) == 0) [[likely]]
    return false;
  int64_t left = fail_in.load();
  while (left > 0 && !fail_in.compare_exchange_weak(left, left - 1)) {
  }
  return left == 1;
}

}  // namespace

BufferRef allocate_on_cpu(size_t bytes) {
  fail_if_asked(bytes, {});
  return CpuPool::get().allocate(bytes);
}

void fail_if_asked(size_t bytes, Device device) {
  if (must_fail())
    raise<OutOfMemoryError>("out of memory: the test hook refused ", bytes, " bytes on ", to_string(device));
}

BufferRef wrap_foreign(void* data, size_t bytes, Device device, std::function<void()> release) {
  if (!release) return std::make_shared<Buffer>(data, bytes, device, nullptr, nullptr);
  auto boxed = std::make_unique<std::function<void()>>(std::move(release));
  const Buffer::ReleaseFn run = [](void*, void* context) noexcept {
    std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(context));
    (*owned)();
  };
  auto ref = std::make_shared<Buffer>(data, bytes, device, run, boxed.get());
  (void)boxed.release();
  return ref;
}

void empty_cache() { CpuPool::get().empty_cache(); }
MemoryStats memory_stats() { return CpuPool::get().stats(); }
void reset_peak_memory() { CpuPool::get().reset_peak(); }
cuda::PoolStatistics cpu_pool_statistics() { return CpuPool::get().counts(); }
void reset_cpu_totals() { CpuPool::get().reset_totals(); }
void fail_allocation_after(int64_t n) { fail_in.store(n); }

}  // namespace smolder
