// SipHash-2-4 of 128 bits: a digest that nobody can make who does not know the key.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "smolder/core/hash.h"

namespace smolder {

/// 128 bits that are kept to oneself.
using SecretKey = std::array<uint64_t, 2>;

/// Takes fields one by one; a field is told from the next by its length.
class SipHash {
 public:
  explicit SipHash(const SecretKey& key);
  SipHash& add(uint64_t word);
  SipHash& add(std::string_view bytes);
  SipHash& add(const Hash128& h) { return add(h.lo).add(h.hi); }
  Hash128 digest() const;

 private:
  void round();
  uint64_t v_[4];
  uint64_t words_ = 0;
};

}  // namespace smolder
