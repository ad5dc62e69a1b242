#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "smolder/core/cuda/pool.h"

namespace smolder::cuda {
namespace {

constexpr size_t kMiB = 1 << 20;

/// Memory that is only numbers.
struct Source {
  size_t left = 1024 * kMiB;
  Address next = 4096;
  std::map<Address, size_t> taken;
  int waits = 0;
  Stretch plans;

  PoolSource functions() {
    return {[this](size_t bytes) -> Address {
              if (bytes > left) return 0;
              left -= bytes;
              taken[next] = bytes;
              return std::exchange(next, next + bytes + 4096);
            },
            [this](Address address) {
              left += taken.at(address);
              taken.erase(address);
            },
            [this] { ++waits; },
            [this](size_t bytes) {
              if (bytes - plans.bytes <= left) {
                left -= bytes - plans.bytes;
                plans = {4096, bytes};
              }
              return plans;
            },
            [this] { left += std::exchange(plans, {}).bytes; }};
  }
};

TEST(CudaPool, ALoopFindsTheSameAddressesAgain) {
  Source source;
  Pool pool(source.functions());
  std::vector<std::vector<Address>> rounds;
  for (int round = 0; round < 4; ++round) {
    std::vector<Pool::Block*> blocks;
    for (const size_t bytes : {100ul, 5 * kMiB, 3 * kMiB, 700ul, 100ul, 30 * kMiB, 0ul})
      blocks.push_back(pool.take(bytes));
    std::vector<Address> addresses;
    for (Pool::Block* b : blocks) addresses.push_back(b->address);
    rounds.push_back(addresses);
    for (const size_t i : {3, 0, 5, 1, 6, 2, 4}) pool.give_back(blocks[i]);
  }
  for (const auto& r : rounds) EXPECT_EQ(r, rounds[0]);
  EXPECT_EQ(pool.statistics().all.allocated.current, 0);
  EXPECT_EQ(pool.statistics().all.blocks.total, 28);
}

TEST(CudaPool, SegmentsArePiecesInOrder) {
  Source source;
  Pool pool(source.functions());
  std::vector<Pool::Block*> blocks;
  for (const size_t bytes : {700ul, 5 * kMiB, 1000ul, 4ul}) blocks.push_back(pool.take(bytes));
  pool.give_back(blocks[0]);
  const std::vector<Pool::Segment> segments = pool.segments();
  ASSERT_EQ(segments.size(), source.taken.size());
  size_t held = 0, all = 0;
  for (const Pool::Segment& s : segments) {
    Address at = s.pieces.front().address;
    for (const Pool::Piece& p : s.pieces) {
      EXPECT_EQ(p.address, at);
      at += p.size;
      all += p.size;
      if (!p.free) held += p.size;
    }
    EXPECT_EQ(at - s.pieces.front().address, source.taken.at(s.pieces.front().address));
  }
  EXPECT_EQ(held, static_cast<size_t>(pool.statistics().all.allocated.current));
  EXPECT_EQ(all, static_cast<size_t>(pool.statistics().all.reserved.current));
  for (const size_t i : {1, 2, 3}) pool.give_back(blocks[i]);
  pool.empty_cache();
  EXPECT_TRUE(pool.segments().empty());
}

TEST(CudaPool, NumbersAndGraphsMoveNoOthers) {
  Source source;
  Pool pool(source.functions());
  std::vector<std::vector<Address>> rounds;
  std::vector<Pool::Block*> losses;
  for (int round = 0; round < 4; ++round) {
    losses.push_back(pool.take(4));
    losses.push_back(pool.take(700, Purpose::kGraph));
    std::vector<Pool::Block*> gradients;
    std::vector<Address> addresses;
    for (int i = 0; i < 5; ++i) addresses.push_back(gradients.emplace_back(pool.take(3072))->address);
    rounds.push_back(addresses);
    for (Pool::Block* b : gradients) pool.give_back(b);
  }
  for (const auto& r : rounds) EXPECT_EQ(r, rounds[0]);
  for (Pool::Block* b : losses) pool.give_back(b);
}

TEST(CudaPool, FreeNeighboursAreOneAgain) {
  Source source;
  Pool pool(source.functions());
  std::vector<Pool::Block*> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(pool.take(kMiB / 8));  // a segment of 2 MiB, whole
  EXPECT_EQ(source.taken.size(), 1u);
  std::shuffle(blocks.begin(), blocks.end(), std::mt19937(1));
  for (Pool::Block* b : blocks) pool.give_back(b);
  pool.give_back(pool.take(kMiB));
  EXPECT_EQ(source.taken.size(), 1u);
  pool.empty_cache();
  EXPECT_TRUE(source.taken.empty());
  EXPECT_EQ(pool.statistics().all.reserved.current, 0);
  EXPECT_EQ(source.waits, 1) << "what was given back may be in use";
}

TEST(CudaPool, GivesCachedMemoryBackBeforeItFails) {
  Source source;
  Pool pool(source.functions());
  Pool::Block* const kept = pool.take(100 * kMiB);
  for (int i = 0; i < 2; ++i) {
    Pool::Block* const a = pool.take(400 * kMiB);
    Pool::Block* const b = pool.take(500 * kMiB);
    ASSERT_TRUE(a && b);
    pool.give_back(a);
    pool.give_back(b);
  }
  Pool::Block* const whole = pool.take(900 * kMiB);
  ASSERT_TRUE(whole);
  EXPECT_EQ(pool.statistics().retries, 1);
  EXPECT_EQ(pool.take(200 * kMiB), nullptr);
  EXPECT_EQ(pool.take(SIZE_MAX), nullptr);
  EXPECT_EQ(pool.statistics().failures, 2);
  pool.give_back(whole);
  pool.give_back(kept);
  EXPECT_TRUE(pool.take(200 * kMiB));
}

TEST(CudaPool, PlansShareOneStretchThatGrows) {
  Source source;
  Pool pool(source.functions());
  pool.give_back(pool.take(800 * kMiB));
  EXPECT_EQ(pool.grow_plans(1).bytes, 2 * kMiB);
  EXPECT_EQ(pool.grow_plans(100 * kMiB).bytes, 100 * kMiB);
  EXPECT_EQ(pool.grow_plans(50 * kMiB).bytes, 100 * kMiB);
  EXPECT_EQ(pool.statistics().all.allocated.current, 100 * kMiB);
  EXPECT_EQ(pool.statistics().all.reserved.current, 900 * kMiB);
  EXPECT_EQ(pool.statistics().all.blocks.current, 1);
  EXPECT_EQ(pool.segments().back().pieces.front().size, 100 * kMiB);
  EXPECT_EQ(pool.grow_plans(300 * kMiB).bytes, 300 * kMiB) << "cached memory was not given back for it";
  EXPECT_EQ(pool.statistics().retries, 1);
  EXPECT_EQ(pool.grow_plans(SIZE_MAX).bytes, 300 * kMiB);
  pool.set_limit(400 * kMiB);
  EXPECT_EQ(pool.grow_plans(500 * kMiB).bytes, 300 * kMiB);
  EXPECT_EQ(pool.statistics().failures, 2);
  pool.clear_plans();
  EXPECT_EQ(pool.statistics().all.reserved.current, 0);
  EXPECT_EQ(pool.statistics().all.segments.current, 0);
  EXPECT_TRUE(pool.segments().empty());
}

TEST(CudaPool, BlocksNeverOverlapAndAreCounted) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    Source source;
    Pool pool(source.functions());
    std::map<Address, Pool::Block*> held;
    int64_t bytes = 0, most = 0;
    for (int i = 0; i < 3000; ++i) {
      if (!held.empty() && random() % 2) {
        auto at = held.lower_bound(random() % source.next);
        if (at == held.end()) at = held.begin();
        bytes -= static_cast<int64_t>(at->second->size);
        pool.give_back(at->second);
        held.erase(at);
        continue;
      }
      const size_t wanted = random() % (size_t{1} << (random() % 27));
      Pool::Block* const b = pool.take(wanted);
      if (!b) continue;
      ASSERT_GE(b->size, wanted);
      ASSERT_EQ(b->address % 512, 0u);
      const auto after = held.lower_bound(b->address);
      ASSERT_TRUE(after == held.end() || b->address + b->size <= after->first) << seed;
      ASSERT_TRUE(after == held.begin() || std::prev(after)->first + std::prev(after)->second->size <= b->address)
          << seed;
      held[b->address] = b;
      bytes += static_cast<int64_t>(b->size);
      most = std::max(most, bytes);
      ASSERT_EQ(pool.statistics().all.allocated.current, bytes);
    }
    EXPECT_EQ(pool.statistics().all.allocated.peak, most);
    for (const auto& [address, b] : held) pool.give_back(b);
    pool.empty_cache();
    EXPECT_TRUE(source.taken.empty());
  }
}

}  // namespace
}  // namespace smolder::cuda
