#include "smolder/core/hash.h"

#include <gtest/gtest.h>

#include <bit>
#include <initializer_list>
#include <set>
#include <unordered_set>
#include <vector>

namespace smolder {
namespace {

TEST(Hash, MatchesThePublishedVector) {
  // XXH3-128 of nothing with seed 0, from the algorithm's specification.
  EXPECT_EQ(to_hex(hash_bytes(nullptr, 0)), "99aa06d3014798d86001c324468d497f");
}

TEST(Hash, HexIsThirtyTwoDigitsHighWordFirst) {
  EXPECT_EQ(to_hex({0x0123456789abcdefull, 0xfedcba9876543210ull}), "fedcba98765432100123456789abcdef");
  EXPECT_EQ(to_hex({}), std::string(32, '0'));
}

TEST(Hash, EveryBitAndTheSeedMatter) {
  std::vector<unsigned char> data(100);
  std::set<Hash128> seen{hash_bytes(data.data(), data.size())};
  for (size_t bit = 0; bit < data.size() * 8; ++bit) {
    data[bit / 8] ^= static_cast<unsigned char>(1u << (bit % 8));
    EXPECT_TRUE(seen.insert(hash_bytes(data.data(), data.size())).second) << bit;
    data[bit / 8] ^= static_cast<unsigned char>(1u << (bit % 8));
  }
  EXPECT_TRUE(seen.insert(hash_bytes(data.data(), data.size(), 1)).second);
  EXPECT_TRUE(seen.insert(hash_bytes(data.data(), data.size() - 1)).second);
}

TEST(Hash, MixIsSensitiveToOrderCountAndValue) {
  const auto of = [](std::initializer_list<uint64_t> words) {
    Hash128 h;
    for (uint64_t w : words) mix(h, w);
    return h;
  };
  EXPECT_EQ(of({1, 2}), of({1, 2}));
  EXPECT_NE(of({1, 2}), of({2, 1}));
  EXPECT_NE(of({0}), of({0, 0}));
  EXPECT_NE(of({0}), of({}));
  EXPECT_NE(of({1}), of({2}));
}

TEST(Hash, MixCollidesNowhereOverShortSequences) {
  // All sequences of up to three small words, and every single bit of a word at two positions.
  std::unordered_set<Hash128> seen;
  size_t count = 0;
  const auto insert = [&](std::initializer_list<uint64_t> words) {
    Hash128 h;
    for (uint64_t w : words) mix(h, w);
    seen.insert(h);
    ++count;
  };
  for (uint64_t a = 0; a < 48; ++a) {
    insert({a});
    for (uint64_t b = 0; b < 48; ++b) {
      insert({a, b});
      for (uint64_t c = 0; c < 48; ++c) insert({a, b, c});
    }
  }
  for (int bit = 6; bit < 64; ++bit) {
    insert({uint64_t{1} << bit});
    insert({7, uint64_t{1} << bit});
    insert({uint64_t{1} << bit, 7});
  }
  EXPECT_EQ(seen.size(), count);
}

TEST(Hash, MixSpreadsOneBitOverHalfTheDigest) {
  double changed = 0;
  for (int bit = 0; bit < 64; ++bit) {
    Hash128 a{1, 2}, b{1, 2};
    mix(a, 0x123456789abcdefull);
    mix(b, 0x123456789abcdefull ^ (uint64_t{1} << bit));
    changed += std::popcount(a.lo ^ b.lo) + std::popcount(a.hi ^ b.hi);
  }
  EXPECT_NEAR(changed / 64, 64, 6);
}

}  // namespace
}  // namespace smolder
