#include "smolder/jit/cache/kernel_cache.h"

#include <cstdlib>
#include <utility>

#include "smolder/core/counters.h"

namespace smolder::jit {
namespace {

struct Counts {
  Counter& memory_hits = counter("cache.memory_hits");
  Counter& disk_hits = counter("cache.disk_hits");
  Counter& misses = counter("cache.misses");
  Counter& collisions = counter("cache.collisions");
  Counter& rejected = counter("cache.rejected");
};
Counts& counts() {
  static Counts c;
  return c;
}

}  // namespace

KernelCache::KernelCache(DiskOptions disk, size_t memory_bytes)
    : ForkGuard(ForkRank::kKernels), memory_(memory_bytes), disk_(std::move(disk)) {
  counts();
  watch_forks();
}

KernelCache::~KernelCache() { forget_forks(); }

KernelCache& KernelCache::global() {
  // Leaked: threads may still look up while statics are destroyed. Closing is what exit must do.
  static KernelCache* const cache = [] {
    static KernelCache* made = new KernelCache(DiskOptions::from_environment());
    std::atexit([] { made->disk_.close(made->disk_.options().exit_seconds); });
    return made;
  }();
  return *cache;
}

CacheLookup KernelCache::lookup(const CacheKey& key) {
  if (cold_) [[unlikely]] {
    memory_.erase(key);
    counts().misses.add();
    return CacheMiss{};
  }
  MemoryCache::FindResult in_memory = memory_.find(key);
  if (in_memory.object) {
    counts().memory_hits.add();
    return MemoryHit{std::move(in_memory.object)};
  }
  DiskFind on_disk = disk_.find(key);
  const bool collision = in_memory.collision || on_disk.status == DiskFind::Status::kCollision;
  if (collision) counts().collisions.add();
  if (on_disk.status == DiskFind::Status::kHit) {
    counts().disk_hits.add();
    return DiskHit{std::move(on_disk.record)};
  }
  counts().misses.add();
  return CacheMiss{collision, on_disk.status == DiskFind::Status::kBroken};
}

std::shared_ptr<void> KernelCache::loaded(const CacheKey& key, std::shared_ptr<void> object, size_t bytes) {
  MemoryCache::InsertResult result = memory_.insert(key, std::move(object), bytes);
  for (const MemoryCache::Evicted& gone : result.evicted) disk_.release(gone.cache_key());
  return std::move(result.object);
}

std::shared_ptr<void> KernelCache::insert(CacheRecord record, std::shared_ptr<void> object, size_t bytes) {
  std::shared_ptr<void> held = loaded(record.cache_key(), std::move(object), bytes);
  disk_.insert(std::move(record));
  return held;
}

void KernelCache::reject(const CacheKey& key) {
  counts().rejected.add();
  memory_.erase(key);
  disk_.discard(key);
}

int64_t KernelCache::clear() {
  memory_.clear();
  return disk_.available() ? disk_.clear() : 0;
}

}  // namespace smolder::jit
