// 128-bit hashing (xxHash's XXH3) and the cheap rolling combine used per recorded instruction.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

namespace smolder {

/// A 128-bit digest. Keys of traces, plans and kernels; a hit is still verified against structure.
struct Hash128 {
  uint64_t lo = 0, hi = 0;
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
};

/// XXH3-128 of a byte range.
Hash128 hash_bytes(const void* data, size_t size, uint64_t seed = 0);
/// 32 lower-case hexadecimal digits.
std::string to_hex(const Hash128& h);

/// Folds one 64-bit word into a rolling digest: two multiplies a word, order-sensitive.
constexpr void mix(Hash128& h, uint64_t word) {
  const auto fold = [](uint64_t a, uint64_t b) {
    const auto p = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(p) ^ static_cast<uint64_t>(p >> 64);
  };
  h.lo = fold(h.lo ^ word ^ 0x9e3779b97f4a7c15ull, 0xbf58476d1ce4e5b9ull) + h.hi;
  h.hi = fold(h.hi ^ word ^ 0xd6e8feb86659fd93ull, 0x94d049bb133111ebull) ^ h.lo;
}

}  // namespace smolder

template <>
struct std::hash<smolder::Hash128> {
  size_t operator()(const smolder::Hash128& h) const noexcept { return h.lo ^ h.hi; }
};
