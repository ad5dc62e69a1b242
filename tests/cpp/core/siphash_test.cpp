#include "smolder/core/siphash.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>

namespace smolder {
namespace {

constexpr SecretKey kKey{0x0706050403020100, 0x0f0e0d0c0b0a0908};

/// The bytes of a digest, as the reference prints them.
std::string printed(Hash128 h) { return to_hex({__builtin_bswap64(h.hi), __builtin_bswap64(h.lo)}); }

// Vectors of the reference implementation: of nothing, and of the bytes 0 to 7.
TEST(SipHash, IsTheReference) {
  EXPECT_EQ(printed(SipHash(kKey).digest()), "a3817f04ba25a8e66df67214c7550293");
  EXPECT_EQ(printed(SipHash(kKey).add(0x0706050403020100).digest()), "3b62a9ba6258f5610f83e264f31497b4");
}

TEST(SipHash, TellsFieldsAndKeysApart) {
  std::set<Hash128> all;
  for (const SecretKey& key : {SecretKey{}, kKey, SecretKey{1, 0}, SecretKey{0, 1}}) {
    all.insert(SipHash(key).add("ab").add("c").digest());
    all.insert(SipHash(key).add("a").add("bc").digest());
    all.insert(SipHash(key).add("abc").digest());
    all.insert(SipHash(key).add("abc").add("").digest());
    all.insert(SipHash(key).add(std::string_view("abc\0", 4)).digest());
    all.insert(SipHash(key).add("the first eight and more").digest());
    all.insert(SipHash(key).add("the first eight and mort").digest());
  }
  EXPECT_EQ(all.size(), 28u);
}

}  // namespace
}  // namespace smolder
