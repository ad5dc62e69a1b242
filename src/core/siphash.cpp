#include "smolder/core/siphash.h"

#include <bit>
#include <cstring>

namespace smolder {

SipHash::SipHash(const SecretKey& key)
    : v_{key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d ^ 0xee, key[0] ^ 0x6c7967656e657261,
         key[1] ^ 0x7465646279746573} {}

void SipHash::round() {
  v_[0] += v_[1], v_[1] = std::rotl(v_[1], 13) ^ v_[0], v_[0] = std::rotl(v_[0], 32);
  v_[2] += v_[3], v_[3] = std::rotl(v_[3], 16) ^ v_[2];
  v_[0] += v_[3], v_[3] = std::rotl(v_[3], 21) ^ v_[0];
  v_[2] += v_[1], v_[1] = std::rotl(v_[1], 17) ^ v_[2], v_[2] = std::rotl(v_[2], 32);
}

SipHash& SipHash::add(uint64_t word) {
  v_[3] ^= word;
  round(), round();
  v_[0] ^= word;
  ++words_;
  return *this;
}

SipHash& SipHash::add(std::string_view bytes) {
  add(bytes.size());
  for (; !bytes.empty(); bytes.remove_prefix(bytes.size() < 8 ? bytes.size() : 8)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), bytes.size() < 8 ? bytes.size() : 8);
    add(word);
  }
  return *this;
}

Hash128 SipHash::digest() const {
  SipHash last = *this;
  last.add(words_ * 8 << 56);
  last.v_[2] ^= 0xee;
  const auto half = [&last] {
    for (int i = 0; i < 4; ++i) last.round();
    return last.v_[0] ^ last.v_[1] ^ last.v_[2] ^ last.v_[3];
  };
  const uint64_t lo = half();
  last.v_[1] ^= 0xdd;
  return {lo, half()};
}

}  // namespace smolder
