// The memory tier of the kernel cache: compiled objects of this process, by key and structure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "smolder/jit/cache/record.h"

namespace smolder::jit {

/// Thread-safe. Holds objects of any type: what a key names has the type that its kind implies.
class MemoryCache {
 public:
  /// Report of an eviction. It holds the object, so that its destructor runs outside our lock.
  struct Evicted {
    std::string kind;
    Hash128 key;
    std::string structure;
    std::string target;
    std::shared_ptr<void> object;
    CacheKey cache_key() const { return {kind, key, structure, target}; }
  };

  explicit MemoryCache(size_t max_bytes) : max_bytes_(max_bytes) {}

  struct FindResult {
    std::shared_ptr<void> object;  ///< null on a miss
    bool collision = false;        ///< missed, but the key is there with another structure
  };
  FindResult find(const CacheKey& key);

  struct InsertResult {
    std::shared_ptr<void> object;  ///< the one held now: an earlier one when two threads built the same
    std::vector<Evicted> evicted;
  };
  /// `bytes` is what the object takes. Past the bound, least recently used objects go, but never one
  /// that somebody still holds: dropping it would free nothing and build it twice.
  InsertResult insert(const CacheKey& key, std::shared_ptr<void> object, size_t bytes);

  /// Forgets the object of `key`, if any.
  void erase(const CacheKey& key);
  /// Forgets everything; holders keep what they hold.
  void clear();
  size_t size() const;
  size_t bytes() const;

  /// A child must not inherit the lock in another thread's hands.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  struct Entry {
    Hash128 slot;
    std::string kind;
    Hash128 key;
    std::string structure;
    std::shared_ptr<const std::string> target;  // one copy for all entries: it is long and they are few
    std::shared_ptr<void> object;
    size_t bytes;
    bool matches(const CacheKey& k) const;
  };
  using Entries = std::list<Entry>;

  Entries::iterator look_up(const Hash128& slot, const CacheKey& key, bool* collision);
  /// Takes the entry out; the caller lets go of the object once the lock is released.
  std::shared_ptr<void> remove(Entries::iterator entry);
  std::vector<Evicted> evict();
  std::shared_ptr<const std::string> intern(std::string_view target);

  const size_t max_bytes_;
  mutable std::mutex mutex_;  // guards all below
  Entries entries_;           // most recently used first
  std::unordered_multimap<Hash128, Entries::iterator> by_slot_;
  std::vector<std::weak_ptr<const std::string>> targets_;
  size_t bytes_ = 0;
};

}  // namespace smolder::jit
