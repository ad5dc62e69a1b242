#include "smolder/core/cuda/pool.h"

#include <algorithm>

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

void add(Statistic& s, int64_t n) {
  s.current += n;
  s.peak = std::max(s.peak, s.current);
  if (n > 0) s.total += n;
}

}  // namespace

Pool::Block* Pool::take(size_t bytes) {
  const size_t size = round_up(std::max<size_t>(std::min(bytes, kLargestRequest), 1), kGranule);
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
    return nullptr;
  }
  free_of(block->small).erase(block);
  const size_t rest = block->size - size;
  if (block->small ? rest >= kGranule : rest > kSmall) split(block, size);
  block->free = false;
  add(statistics_.allocated, static_cast<int64_t>(block->size));
  add(statistics_.blocks, 1);
  return block;
}

void Pool::give_back(Block* block) {
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

PoolStatistics Pool::statistics() {
  const std::lock_guard hold(lock_);
  return statistics_;
}

void Pool::reset_peak() {
  const std::lock_guard hold(lock_);
  for (Statistic* s : {&statistics_.allocated, &statistics_.reserved, &statistics_.blocks}) s->peak = s->current;
}

void Pool::empty_cache() {
  const std::lock_guard hold(lock_);
  release_free_segments();
}

Pool::Block* Pool::find(size_t size) {
  Free& free = free_of(size <= kSmall);
  const auto at = free.lower_bound(size);
  return at == free.end() ? nullptr : *at;
}

/// Null when the source has none left.
Pool::Block* Pool::new_segment(size_t size) {
  const size_t bytes = segment_bytes(size);
  const Address address = source_.take(bytes);
  if (address == 0) return nullptr;
  add(statistics_.reserved, static_cast<int64_t>(bytes));
  auto* const block = new Block{this, address, bytes, size <= kSmall};
  free_of(block->small).insert(block);
  return block;
}

void Pool::split(Block* block, size_t size) {
  auto* const rest =
      new Block{this, block->address + size, block->size - size, block->small, true, block, block->after};
  if (rest->after) rest->after->before = rest;
  block->after = rest;
  block->size = size;
  free_of(rest->small).insert(rest);
}

/// Makes `next`, which lies after `block`, part of it. `block` is in no set.
void Pool::absorb(Block* block, Block* next) {
  free_of(next->small).erase(next);
  block->size += next->size;
  block->after = next->after;
  if (block->after) block->after->before = block;
  delete next;
}

void Pool::release_free_segments() {
  source_.wait();
  for (Free* free : {&small_, &large_}) {
    for (auto at = free->begin(); at != free->end();) {
      Block* const block = *at;
      if (block->before || block->after) {
        ++at;
        continue;
      }
      at = free->erase(at);
      source_.give_back(block->address);
      add(statistics_.reserved, -static_cast<int64_t>(block->size));
      delete block;
    }
  }
}

}  // namespace smolder::cuda
