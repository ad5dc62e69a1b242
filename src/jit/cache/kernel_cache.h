// The kernel cache as the compiler uses it: memory, then disk.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <variant>

#include "smolder/core/fork.h"
#include "smolder/jit/cache/disk.h"
#include "smolder/jit/cache/memory.h"
#include "smolder/jit/cache/record.h"

namespace smolder::jit {

/// The compiled object, ready to run.
struct MemoryHit {
  std::shared_ptr<void> object;
};
/// The stored bytes: load them, then KernelCache::loaded().
struct DiskHit {
  CacheRecord record;  ///< without source, last_use and hits
};
/// Build it, then KernelCache::insert().
struct CacheMiss {
  bool collision = false;  ///< a row of this key holds another structure
  bool broken = false;     ///< the row was damaged and is being dropped
};
using CacheLookup = std::variant<MemoryHit, DiskHit, CacheMiss>;

/// Thread-safe. Two threads that miss the same key at once both build it; the first insert wins in
/// memory. Counters: cache.memory_hits, cache.disk_hits, cache.misses, cache.collisions,
/// cache.corrupt_rows, cache.writes, cache.evictions, cache.dropped_writes, cache.lock_timeouts,
/// cache.databases_set_aside, cache.rejected.
class KernelCache : public ForkGuard {
 public:
  static constexpr size_t kDefaultMemoryBytes = size_t{512} << 20;

  explicit KernelCache(DiskOptions disk, size_t memory_bytes = kDefaultMemoryBytes);
  ~KernelCache();

  /// The cache of this process, set up from the environment at first use. What is queued is written
  /// at exit, within DiskOptions::exit_seconds.
  static KernelCache& global();

  CacheLookup lookup(const CacheKey& key);
  /// Keeps a built object and stores its record. `bytes` is what the object takes in memory. Returns
  /// the object to use: another thread's when it was first.
  std::shared_ptr<void> insert(CacheRecord record, std::shared_ptr<void> object, size_t bytes);
  /// Keeps an object made from a DiskHit; returns the object to use.
  std::shared_ptr<void> loaded(const CacheKey& key, std::shared_ptr<void> object, size_t bytes);
  /// The payload of a DiskHit could not be loaded: drops its row, so that a build replaces it.
  void reject(const CacheKey& key);

  /// While cold every lookup is a miss, and what was found before is forgotten: for tests that a kernel built anew is
  /// the one that was kept.
  void set_cold(bool cold) { cold_ = cold; }
  bool is_cold() const { return cold_; }
  /// Waits until what was inserted so far is on disk; false when `seconds` passed first.
  bool flush(double seconds = 10) { return disk_.flush(seconds); }
  /// Empties both tiers; objects in use live on. The number of rows dropped from disk.
  int64_t clear();

  MemoryCache& memory() { return memory_; }
  /// For tools: rows, statistics, verification, pruning, export and import.
  DiskCache& disk() { return disk_; }

 private:
  void before_fork() override { memory_.lock(); }
  void after_fork_in_parent() override { memory_.unlock(); }
  void after_fork_in_child() override { memory_.unlock(); }

  std::atomic<bool> cold_ = false;
  MemoryCache memory_;
  DiskCache disk_;
};

}  // namespace smolder::jit
