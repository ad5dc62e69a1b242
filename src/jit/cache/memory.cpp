#include "smolder/jit/cache/memory.h"

#include <algorithm>
#include <utility>

namespace smolder::jit {
namespace {

// Objects still held are moved to the front as they are met; this bounds what one insert spends on it.
constexpr int kMaxLooks = 64;

}  // namespace

bool MemoryCache::Entry::matches(const CacheKey& k) const {
  return key == k.key && kind == k.kind && structure == k.structure && *target == k.target;
}

MemoryCache::Entries::iterator MemoryCache::look_up(const Hash128& slot, const CacheKey& key, bool* collision) {
  const auto [first, last] = by_slot_.equal_range(slot);
  for (auto it = first; it != last; ++it)
    if (it->second->matches(key)) return it->second;
  *collision = first != last;
  return entries_.end();
}

MemoryCache::FindResult MemoryCache::find(const CacheKey& key) {
  const Hash128 slot = slot_of(key);
  FindResult result;
  const std::lock_guard lock(mutex_);
  const auto entry = look_up(slot, key, &result.collision);
  if (entry == entries_.end()) return result;
  entries_.splice(entries_.begin(), entries_, entry);
  result.object = entry->object;
  return result;
}

MemoryCache::InsertResult MemoryCache::insert(const CacheKey& key, std::shared_ptr<void> object, size_t bytes) {
  const Hash128 slot = slot_of(key);
  const std::lock_guard lock(mutex_);
  bool collision = false;
  if (const auto entry = look_up(slot, key, &collision); entry != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, entry);
    return {entry->object, {}};
  }
  // The structure counts too: it is kept to tell collisions.
  const size_t total = bytes + key.structure.size() + sizeof(Entry);
  entries_.push_front(
      {slot, std::string(key.kind), key.key, std::string(key.structure), intern(key.target), std::move(object), total});
  by_slot_.emplace(slot, entries_.begin());
  bytes_ += total;
  std::shared_ptr<void> held = entries_.front().object;  // also keeps it from being evicted at once
  return {held, evict()};
}

std::vector<MemoryCache::Evicted> MemoryCache::evict() {
  std::vector<Evicted> evicted;
  for (int looks = 0; bytes_ > max_bytes_ && looks < kMaxLooks && !entries_.empty(); ++looks) {
    const auto oldest = std::prev(entries_.end());
    if (oldest->object.use_count() > 1) {
      entries_.splice(entries_.begin(), entries_, oldest);
      continue;
    }
    Evicted gone{oldest->kind, oldest->key, oldest->structure, *oldest->target, nullptr};
    gone.object = remove(oldest);
    evicted.push_back(std::move(gone));
  }
  return evicted;
}

std::shared_ptr<void> MemoryCache::remove(Entries::iterator entry) {
  const auto [first, last] = by_slot_.equal_range(entry->slot);
  by_slot_.erase(std::find_if(first, last, [&](const auto& pair) { return pair.second == entry; }));
  bytes_ -= entry->bytes;
  std::shared_ptr<void> object = std::move(entry->object);
  entries_.erase(entry);
  return object;
}

std::shared_ptr<const std::string> MemoryCache::intern(std::string_view target) {
  std::erase_if(targets_, [](const auto& known) { return known.expired(); });
  for (const auto& known : targets_)
    if (auto held = known.lock(); held && *held == target) return held;
  auto made = std::make_shared<const std::string>(target);
  targets_.push_back(made);
  return made;
}

void MemoryCache::erase(const CacheKey& key) {
  const Hash128 slot = slot_of(key);
  std::shared_ptr<void> gone;
  const std::lock_guard lock(mutex_);
  bool collision = false;
  if (const auto entry = look_up(slot, key, &collision); entry != entries_.end()) gone = remove(entry);
}

void MemoryCache::clear() {
  Entries gone;
  const std::lock_guard lock(mutex_);
  by_slot_.clear();
  gone.swap(entries_);
  bytes_ = 0;
}

size_t MemoryCache::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

size_t MemoryCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace smolder::jit
