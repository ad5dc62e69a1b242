#include "smolder/core/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace smolder {

Hash128 hash_bytes(const void* data, size_t size, uint64_t seed) {
  const XXH128_hash_t h = XXH3_128bits_withSeed(data, size, seed);
  return {h.low64, h.high64};
}

std::string to_hex(const Hash128& h) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out(32, '0');
  for (int i = 0; i < 16; ++i) {
    out[15 - i] = kDigits[(h.hi >> (4 * i)) & 15];
    out[31 - i] = kDigits[(h.lo >> (4 * i)) & 15];
  }
  return out;
}

}  // namespace smolder
