// Where intermediates live: nothing in the way of anything else, and no larger than need be.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "smolder/jit/schedule/place.h"

namespace smolder::jit {
namespace {

constexpr int64_t kUnit = 64;

Lifetime life(int64_t units, int first, int last, std::vector<int> heirs_of = {}) {
  return {0, ir::Dim(units * kUnit), 1, first, last, std::move(heirs_of)};
}
Host host(BufferId buffer, int64_t units, int until) { return {buffer, ir::Dim(units * kUnit), 1, until}; }

TEST(Place, TheLargestAreFirstWhereOrderLeavesRoom) {
  // The first is gone when the others come, which are too large for its place.
  const std::vector<Lifetime> lives = {life(1, 0, 1), life(1, 0, 4), life(8, 2, 3), life(2, 3, 4)};
  const Placement p = place(lives, {});
  EXPECT_EQ(p.bytes, 11 * kUnit);
  EXPECT_EQ(p.hosts, std::vector<BufferId>(4, -1));
}

TEST(Place, WhatWaitsIsInAnOutputUntilThatIsWritten) {
  const std::vector<Lifetime> lives = {life(2, 0, 3), life(3, 0, 4), life(2, 1, 5), life(9, 2, 2)};
  const Placement alone = place(lives, {});
  EXPECT_EQ(alone.bytes, 16 * kUnit);
  // The smallest with room: 8 for the first. 7 is written before the third ends, and 9 before any does.
  const Placement p = place(lives, {}, std::vector{host(7, 5, 5), host(8, 2, 6), host(9, 50, 2)});
  EXPECT_EQ(p.bytes, 11 * kUnit);
  EXPECT_EQ(p.hosts, (std::vector<BufferId>{8, 7, -1, -1}));
  // One for two at once, side by side.
  const Placement one = place(lives, {}, std::vector{host(7, 5, 5)});
  EXPECT_EQ(one.hosts, (std::vector<BufferId>{7, 7, -1, -1}));
  EXPECT_EQ(one.offsets[0] + one.offsets[1], 3 * kUnit);
}

TEST(Place, AnHeirGoesWhereItsDonorIs) {
  const std::vector<Lifetime> lives = {life(2, 0, 1), life(2, 1, 4, {0}), life(4, 1, 2)};
  const Placement p = place(lives, {}, std::vector{host(5, 2, 4), host(6, 3, 5)});
  EXPECT_EQ(p.hosts, (std::vector<BufferId>{6, 6, -1}));
  EXPECT_EQ(p.offsets[0], p.offsets[1]);
  EXPECT_EQ(p.bytes, 4 * kUnit);
}

TEST(Place, RandomLifetimesDoNotMeet) {
  std::mt19937_64 random(3);
  const auto between = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  bool hosted = false;
  for (int round = 0; round < 300; ++round) {
    std::vector<Lifetime> lives;
    for (int launch = 0; launch < 30; ++launch) {
      for (int i = between(0, 2); i > 0; --i) {
        lives.push_back(life(between(0, 9), launch, launch + between(0, 12)));
        for (int k = 0; k + 1 < static_cast<int>(lives.size()); ++k) {
          if (lives[k].last == launch && lives[k].elements == lives.back().elements) lives.back().heirs_of.push_back(k);
        }
      }
    }
    std::vector<Host> hosts;
    for (int i = between(0, 5); i > 0; --i) hosts.push_back(host(100 + i, between(1, 20), between(1, 30)));
    const Placement alone = place(lives, {}), p = place(lives, {}, hosts);
    EXPECT_LE(p.bytes, alone.bytes);
    for (size_t i = 0; i < lives.size(); ++i) {
      const int64_t end = p.offsets[i] + lives[i].elements.value;
      if (p.hosts[i] < 0) {
        EXPECT_LE(end, p.bytes);
      } else {
        const auto h = std::ranges::find(hosts, p.hosts[i], &Host::buffer);
        EXPECT_LE(end, h->elements.value);
        EXPECT_LT(lives[i].last, h->until);
        hosted = true;
      }
      for (size_t k = 0; k < i; ++k) {
        const bool heir = std::ranges::count(lives[i].heirs_of, static_cast<int>(k)) > 0;
        const bool at_once = lives[k].last > lives[i].first || (lives[k].last == lives[i].first && !heir);
        const bool meet = p.offsets[k] < end && p.offsets[i] < p.offsets[k] + lives[k].elements.value;
        EXPECT_FALSE(p.hosts[i] == p.hosts[k] && at_once && meet) << round << ": " << i << " and " << k;
      }
    }
  }
  EXPECT_TRUE(hosted);
}

}  // namespace
}  // namespace smolder::jit
