// A caching pool of memory that is handed out in one order: what is given back may serve the next at once. Segments and
// their splitting are as in PyTorch's caching allocator, but for `Purpose`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "smolder/core/cuda/api.h"

namespace smolder::cuda {

/// A quantity and its history.
struct Statistic {
  int64_t current = 0, peak = 0, total = 0;  ///< total: all that was ever added
};
struct PoolPart {
  Statistic allocated;       ///< bytes of blocks that are held
  Statistic requested;       ///< bytes that were asked for, of these
  Statistic blocks;          ///< blocks that are held
  Statistic reserved;        ///< bytes taken from the source
  Statistic segments;        ///< the stretches they are
  Statistic inactive;        ///< free blocks in segments that are not free as a whole
  Statistic inactive_bytes;  ///< theirs
};
struct PoolStatistics {
  PoolPart all, large, small;
  int64_t retries = 0;   ///< allocations that had to give cached memory back first
  int64_t failures = 0;  ///< those that failed
  int64_t takes = 0;     ///< calls to the source
  int64_t returns = 0;
};

struct Stretch {
  Address address = 0;
  size_t bytes = 0;
};

/// Where a pool's memory comes from.
struct PoolSource {
  std::function<Address(size_t bytes)> take;  ///< 0 when there is none left
  std::function<void(Address)> give_back;
  std::function<void()> wait;  ///< until nothing uses what was given back to the pool
  /// Lets the stretch that plans share have at least `bytes`, and says what it is now: smaller when there is no memory.
  std::function<Stretch(size_t bytes)> grow_plans;
  std::function<void()> clear_plans;  ///< waits
};

/// The purpose of memory. Each has segments of its own, so that a number that is kept, or memory of a graph, does not
/// move the tensors of the next step; plans share one that grows.
enum class Purpose : uint8_t { kTensor, kNumber, kGraph, kPlans };

/// Thread-safe.
class Pool {
 public:
  /// A stretch of a segment. Neighbours that are both free are one.
  struct Block {
    Pool* pool;
    Address address;
    size_t size;
    bool small;  ///< of a segment of small ones
    Purpose purpose;
    bool free = true;
    Block *before = nullptr, *after = nullptr;  ///< in the segment
    size_t requested = 0;
  };

  /// The blocks that a segment is divided into, in order.
  struct Piece {
    Address address;
    size_t size, requested;
    bool free;
  };
  struct Segment {
    bool small;
    Purpose purpose;
    std::vector<Piece> pieces;
  };

  explicit Pool(PoolSource source) : source_(std::move(source)) {}
  Pool(const Pool&) = delete;

  /// Null when there is none left, though cached memory was given back. Zero bytes give a block too.
  /// Tensors of one number are numbers.
  Block* take(size_t bytes, Purpose purpose = Purpose::kTensor);
  void give_back(Block* block);
  /// Lets the stretch of memory that plans share have at least `bytes`, and says what it is now: smaller when there is
  /// no memory left, though cached memory was given back. No other memory is taken or given back for it.
  Stretch grow_plans(size_t bytes);
  void clear_plans();
  PoolStatistics statistics();
  /// All memory that was taken from the source.
  std::vector<Segment> segments();
  /// Lets peaks start from what is held now.
  void reset_peak();
  /// Lets totals start from nothing.
  void reset_totals();
  /// The most bytes that are taken from the source at a time.
  void set_limit(size_t bytes);
  size_t limit();
  /// Gives back the segments that nothing is in.
  void empty_cache();

 private:
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
  using Free = std::set<Block*, BySize>;

  Free& free_of(const Block& b) { return free_[static_cast<int>(b.purpose)][b.small]; }
  void add(Statistic PoolPart::* what, bool small, int64_t n);
  void insert_free(Block* block);
  void erase_free(Block* block);
  void count_inactive(const Block* block, int sign);
  Block* find(size_t size, Purpose purpose);
  Block* new_segment(size_t size, Purpose purpose);
  void split(Block* block, size_t size);
  void absorb(Block* block, Block* next);
  void release_free_segments();
  void try_to_grow_plans(size_t bytes);
  void note_plans(Stretch now);

  const PoolSource source_;
  std::mutex lock_;
  Free free_[3][2];            ///< by purpose, large and small
  std::set<Block*> segments_;  ///< the first block of each, which stays as long as the segment does
  Stretch plans_;
  size_t limit_ = std::numeric_limits<size_t>::max();
  PoolStatistics statistics_;
};

}  // namespace smolder::cuda
