#include "smolder/jit/cuda/lanes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

namespace smolder::jit::cuda {
namespace {

MemoryRange reads(uintptr_t begin) { return {begin, begin + 10, false}; }
MemoryRange writes(uintptr_t begin) { return {begin, begin + 10, true}; }

TEST(Lanes, AChainStaysOnOne) {
  const std::vector<std::vector<MemoryRange>> work = {
      {writes(0)}, {reads(0), writes(10)}, {reads(10), writes(20)}, {reads(20), writes(0)}};
  for (const LanePlace& p : deal_to_lanes(work, 4)) {
    EXPECT_EQ(p.lane, 0);
    EXPECT_TRUE(p.waits.empty());
    EXPECT_FALSE(p.is_waited_for);
  }
}

TEST(Lanes, WhatSharesNothingGoesSideBySide) {
  // A gradient of a weight and one of an input, of one result; then an update of each.
  const std::vector<std::vector<MemoryRange>> work = {
      {writes(0)}, {reads(0), writes(10)}, {reads(0), writes(20)}, {reads(10), writes(30)}, {reads(20), writes(40)}};
  const std::vector<LanePlace> p = deal_to_lanes(work, 4);
  EXPECT_EQ(p[1].lane, p[0].lane);
  EXPECT_NE(p[2].lane, p[0].lane);
  EXPECT_EQ(p[2].waits, std::vector<int>{0});
  EXPECT_TRUE(p[0].is_waited_for);
  EXPECT_EQ(p[3].lane, p[1].lane);
  EXPECT_EQ(p[4].lane, p[2].lane);
}

TEST(Lanes, ReadersNeedNoOrderAndAWriterWaitsForAll) {
  const std::vector<std::vector<MemoryRange>> work = {{reads(0)}, {reads(0)}, {reads(5)}, {writes(0)}};
  const std::vector<LanePlace> p = deal_to_lanes(work, 3);
  EXPECT_EQ(p[3].waits.size(), 2u);
}

TEST(Lanes, WhatFillsTheDeviceIsOnTheFirst) {
  const std::vector<std::vector<MemoryRange>> work = {{writes(0)}, {reads(0), writes(10)}, {reads(0), writes(20)}};
  const std::vector<LanePlace> p = deal_to_lanes(work, 4, 20);
  EXPECT_EQ(p[1].lane, 0);
  EXPECT_EQ(p[2].lane, 0);
  EXPECT_TRUE(p[2].waits.empty());
}

/// Whether j is done before i starts, by the order of lanes and by waits.
bool is_before(const std::vector<LanePlace>& places, int j, int i) {
  std::vector<char> done(places.size(), 0);
  std::vector<int> open = {i};
  while (!open.empty()) {
    const int at = open.back();
    open.pop_back();
    std::vector<int> direct = places[at].waits;
    for (int k = at; k-- > 0;) {
      if (places[k].lane == places[at].lane) {
        direct.push_back(k);
        break;
      }
    }
    for (const int k : direct) {
      EXPECT_LT(k, at);
      if (!std::exchange(done[k], 1)) open.push_back(k);
    }
  }
  return done[j];
}

TEST(Lanes, ConflictsKeepTheirOrderInRandomWork) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<std::vector<MemoryRange>> work(40);
    for (auto& ranges : work) {
      for (uint64_t n = 1 + random() % 3; n-- > 0;) {
        const uintptr_t begin = random() % 60;
        ranges.push_back({begin, begin + 1 + random() % 8, random() % 3 == 0});
      }
    }
    const int lanes = 1 + static_cast<int>(random() % 6);
    const std::vector<LanePlace> places = deal_to_lanes(work, lanes, seed % 3 == 0 ? 12 : 100);
    for (int i = 0; i < 40; ++i) {
      EXPECT_LT(places[i].lane, lanes);
      for (const int j : places[i].waits) EXPECT_TRUE(places[j].is_waited_for) << seed;
      for (int j = 0; j < i; ++j) {
        const bool conflicts = std::ranges::any_of(work[i], [&](const MemoryRange& x) {
          return std::ranges::any_of(work[j], [&](const MemoryRange& y) {
            return (x.written || y.written) && x.begin < y.end && y.begin < x.end;
          });
        });
        EXPECT_TRUE(!conflicts || is_before(places, j, i)) << seed << ": " << j << " before " << i;
      }
    }
  }
}

}  // namespace
}  // namespace smolder::jit::cuda
