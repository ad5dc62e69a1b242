#include "smolder/core/cuda/pool.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace smolder::cuda {
namespace {

constexpr size_t kGranule = 512;             // of every block
constexpr size_t kNumber = 8;                // a request up to here is for one number
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

constexpr Statistic PoolPart::* kKinds[] = {&PoolPart::allocated,     &PoolPart::requested, &PoolPart::blocks,
                                            &PoolPart::reserved,      &PoolPart::segments,  &PoolPart::inactive,
                                            &PoolPart::inactive_bytes};
void each_statistic(PoolStatistics& s, auto&& f) {
  for (PoolPart* part : {&s.all, &s.large, &s.small}) {
    for (const auto kind : kKinds) f(part->*kind);
  }
}

}  // namespace

void Pool::add(Statistic PoolPart::* what, bool small, int64_t n) {
  for (PoolPart* part : {&statistics_.all, small ? &statistics_.small : &statistics_.large}) {
    Statistic& s = part->*what;
    s.current += n;
    s.peak = std::max(s.peak, s.current);
    if (n > 0) s.total += n;
  }
}

/// A free block counts where its segment holds others that keep it from going back.
void Pool::count_inactive(const Block* block, int sign) {
  if (!block->before && !block->after) return;
  add(&PoolPart::inactive, block->small, sign);
  add(&PoolPart::inactive_bytes, block->small, sign * static_cast<int64_t>(block->size));
}
void Pool::insert_free(Block* block) {
  free_of(*block).insert(block);
  count_inactive(block, 1);
}
void Pool::erase_free(Block* block) {
  free_of(*block).erase(block);
  count_inactive(block, -1);
}

Pool::Block* Pool::take(size_t bytes, Purpose purpose) {
  const size_t size = round_up(std::max<size_t>(std::min(bytes, kLargestRequest), 1), kGranule);
  const std::lock_guard hold(lock_);
  if (purpose == Purpose::kTensor && bytes <= kNumber) purpose = Purpose::kNumber;
  Block* block = find(size, purpose);
  if (!block) block = new_segment(size, purpose);
  if (!block) {
    ++statistics_.retries;
    release_free_segments();
    block = new_segment(size, purpose);
  }
  if (!block) {
    ++statistics_.failures;
    return nullptr;
  }
  erase_free(block);
  const size_t rest = block->size - size;
  if (block->small ? rest >= kGranule : rest > kSmall) split(block, size);
  block->free = false;
  block->requested = bytes;
  add(&PoolPart::allocated, block->small, static_cast<int64_t>(block->size));
  add(&PoolPart::requested, block->small, static_cast<int64_t>(bytes));
  add(&PoolPart::blocks, block->small, 1);
  return block;
}

void Pool::give_back(Block* block) {
  const std::lock_guard hold(lock_);
  add(&PoolPart::allocated, block->small, -static_cast<int64_t>(block->size));
  add(&PoolPart::requested, block->small, -static_cast<int64_t>(block->requested));
  add(&PoolPart::blocks, block->small, -1);
  if (block->after && block->after->free) absorb(block, block->after);
  if (Block* const before = block->before; before && before->free) {
    erase_free(before);
    absorb(before, block);
    block = before;
  }
  block->free = true;
  insert_free(block);
}

void Pool::note_plans(Stretch now) {
  const int64_t more = static_cast<int64_t>(now.bytes) - static_cast<int64_t>(plans_.bytes);
  const int64_t one_more = static_cast<int64_t>(now.bytes > 0) - static_cast<int64_t>(plans_.bytes > 0);
  for (const auto what : {&PoolPart::allocated, &PoolPart::requested, &PoolPart::reserved}) add(what, false, more);
  for (const auto what : {&PoolPart::blocks, &PoolPart::segments}) add(what, false, one_more);
  statistics_.takes += more > 0;
  statistics_.returns += more < 0;
  plans_ = now;
}

void Pool::try_to_grow_plans(size_t bytes) {
  const size_t others = static_cast<size_t>(statistics_.all.reserved.current) - plans_.bytes;
  const size_t wanted = round_up(std::min(bytes, kLargestRequest), kSegmentGranule);
  if (wanted <= limit_ && others <= limit_ - wanted) note_plans(source_.grow_plans(wanted));
}

Stretch Pool::grow_plans(size_t bytes) {
  const std::lock_guard hold(lock_);
  if (plans_.bytes < bytes) try_to_grow_plans(bytes);
  if (plans_.bytes < bytes) {
    ++statistics_.retries;
    release_free_segments();
    try_to_grow_plans(bytes);
  }
  statistics_.failures += plans_.bytes < bytes;
  return plans_;
}

void Pool::clear_plans() {
  const std::lock_guard hold(lock_);
  if (plans_.bytes == 0) return;
  source_.clear_plans();
  note_plans({});
}

PoolStatistics Pool::statistics() {
  const std::lock_guard hold(lock_);
  return statistics_;
}

std::vector<Pool::Segment> Pool::segments() {
  const std::lock_guard hold(lock_);
  std::vector<Segment> out;
  for (const Block* first : segments_) {
    Segment& segment = out.emplace_back(Segment{first->small, first->purpose, {}});
    for (const Block* b = first; b; b = b->after) {
      segment.pieces.push_back({b->address, b->size, b->free ? 0 : b->requested, b->free});
    }
  }
  if (plans_.bytes > 0) {
    out.push_back(Segment{false, Purpose::kPlans, {Piece{plans_.address, plans_.bytes, plans_.bytes, false}}});
  }
  return out;
}

void Pool::reset_peak() {
  const std::lock_guard hold(lock_);
  each_statistic(statistics_, [](Statistic& s) { s.peak = s.current; });
}

void Pool::reset_totals() {
  const std::lock_guard hold(lock_);
  each_statistic(statistics_, [](Statistic& s) { s.total = s.current; });
  statistics_.retries = statistics_.failures = statistics_.takes = statistics_.returns = 0;
}

void Pool::set_limit(size_t bytes) {
  const std::lock_guard hold(lock_);
  limit_ = bytes;
}
size_t Pool::limit() {
  const std::lock_guard hold(lock_);
  return limit_;
}

void Pool::empty_cache() {
  const std::lock_guard hold(lock_);
  release_free_segments();
}

Pool::Block* Pool::find(size_t size, Purpose purpose) {
  Free& free = free_[static_cast<int>(purpose)][size <= kSmall];
  const auto at = free.lower_bound(size);
  return at == free.end() ? nullptr : *at;
}

/// Null when the source has none left.
Pool::Block* Pool::new_segment(size_t size, Purpose purpose) {
  const size_t bytes = segment_bytes(size);
  const size_t taken = static_cast<size_t>(statistics_.all.reserved.current);
  if (bytes > limit_ || taken > limit_ - bytes) return nullptr;
  const Address address = source_.take(bytes);
  if (address == 0) return nullptr;
  ++statistics_.takes;
  const bool small = size <= kSmall;
  add(&PoolPart::reserved, small, static_cast<int64_t>(bytes));
  add(&PoolPart::segments, small, 1);
  auto* const block = new Block{this, address, bytes, small, purpose};
  segments_.insert(block);
  insert_free(block);
  return block;
}

void Pool::split(Block* block, size_t size) {
  auto* const rest = new Block{this,  block->address + size, block->size - size, block->small, block->purpose, true,
                               block, block->after};
  if (rest->after) rest->after->before = rest;
  block->after = rest;
  block->size = size;
  insert_free(rest);
}

/// Makes `next`, which lies after `block`, part of it. `block` is in no set.
void Pool::absorb(Block* block, Block* next) {
  if (next->free) erase_free(next);  // what is being given back is in none yet
  block->size += next->size;
  block->after = next->after;
  if (block->after) block->after->before = block;
  delete next;
}

void Pool::release_free_segments() {
  source_.wait();
  for (Free& free : std::span(&free_[0][0], std::size(free_) * 2)) {
    for (auto at = free.begin(); at != free.end();) {
      Block* const block = *at;
      if (block->before || block->after) {
        ++at;
        continue;
      }
      at = free.erase(at);
      source_.give_back(block->address);
      ++statistics_.returns;
      add(&PoolPart::reserved, block->small, -static_cast<int64_t>(block->size));
      add(&PoolPart::segments, block->small, -1);
      segments_.erase(block);
      delete block;
    }
  }
}

}  // namespace smolder::cuda
