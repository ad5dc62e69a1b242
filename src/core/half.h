// bfloat16 and float16 conversions, round to nearest even, the same bits on every machine.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace smolder {

/// Storage of a bfloat16: the upper half of a float32.
struct BFloat16 {
  uint16_t bits;
};
/// Storage of an IEEE binary16.
struct Float16 {
  uint16_t bits;
};

constexpr float to_float(BFloat16 v) { return std::bit_cast<float>(static_cast<uint32_t>(v.bits) << 16); }

constexpr BFloat16 to_bfloat16(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((u >> 16) | 0x40)};  // quiet nan
  return {static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1)) >> 16)};
}

constexpr float to_float(Float16 v) {
  const uint32_t sign = static_cast<uint32_t>(v.bits & 0x8000) << 16;
  const uint32_t rest = v.bits & 0x7fff;
  if (rest >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000u | ((rest & 0x3ff) << 13));
  if (rest >= 0x400) return std::bit_cast<float>(sign | ((rest << 13) + (112u << 23)));
  const float tiny = static_cast<float>(rest) * 0x1p-24f;  // subnormal: exact in float32
  return sign ? -tiny : tiny;
}

constexpr Float16 to_float16(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  const uint16_t sign = static_cast<uint16_t>((u >> 16) & 0x8000);
  const uint32_t a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00 | ((a >> 13) & 0x3ff))};
  if (a >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00)};  // rounds past 65504
  if (a < 0x38800000u) {  // below 2^-14: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits
    const float shifted = std::bit_cast<float>(a) + 0.5f;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u))};
  }
  return {static_cast<uint16_t>(sign | ((a - (112u << 23) + 0xfffu + ((a >> 13) & 1)) >> 13))};
}

}  // namespace smolder
