#include "smolder/core/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace smolder {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// The value of a binary16 or bfloat16 by its definition: sign, exponent, mantissa.
double by_definition(uint32_t bits, int mantissa_bits, int exponent_bits) {
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double mantissa = bits & ((1u << mantissa_bits) - 1);
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa != 0 ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + std::ldexp(1, mantissa_bits), exponent - bias - mantissa_bits);
}

struct Half {
  static constexpr int kMantissa = 10, kExponent = 5;
  static float widen(uint32_t bits) { return to_float(Float16{static_cast<uint16_t>(bits)}); }
  static uint32_t narrow(float f) { return to_float16(f).bits; }
};
struct BHalf {
  static constexpr int kMantissa = 7, kExponent = 8;
  static float widen(uint32_t bits) { return to_float(BFloat16{static_cast<uint16_t>(bits)}); }
  static uint32_t narrow(float f) { return to_bfloat16(f).bits; }
};

template <class T>
class HalfTypes : public testing::Test {};
using Formats = testing::Types<Half, BHalf>;
TYPED_TEST_SUITE(HalfTypes, Formats);

TYPED_TEST(HalfTypes, EveryPatternWidensToItsDefinition) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const double expected = by_definition(bits, TypeParam::kMantissa, TypeParam::kExponent);
    const float got = TypeParam::widen(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got)) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(got), expected) << bits;
    }
    ASSERT_EQ(std::signbit(got), bits >> 15 != 0) << bits;
  }
}

TYPED_TEST(HalfTypes, EveryPatternComesBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const uint32_t back = TypeParam::narrow(TypeParam::widen(bits));
    const bool is_nan = std::isnan(TypeParam::widen(bits));
    const uint32_t quiet = is_nan ? 1u << (TypeParam::kMantissa - 1) : 0;  // a signalling nan comes back quiet
    ASSERT_EQ(back, bits | quiet) << bits;
  }
}

/// Every value between two neighbours goes to the nearer, and the middle to the even one. With the
/// round trip this fixes the conversion of all floats, as it is monotone.
TYPED_TEST(HalfTypes, NeighboursShareTheGapBetweenThemHalfAndHalf) {
  const uint32_t infinity = ((1u << TypeParam::kExponent) - 1) << TypeParam::kMantissa;
  for (uint32_t sign : {0u, 0x8000u}) {
    for (uint32_t bits = 0; bits < infinity; ++bits) {
      const double low = by_definition(bits, TypeParam::kMantissa, TypeParam::kExponent);
      // Past the largest finite value the gap goes on as if the exponent did.
      const double high = bits + 1 == infinity
                              ? 2 * low - by_definition(bits - 1, TypeParam::kMantissa, TypeParam::kExponent)
                              : by_definition(bits + 1, TypeParam::kMantissa, TypeParam::kExponent);
      const float middle = static_cast<float>((low + high) / 2);
      ASSERT_EQ(static_cast<double>(middle), (low + high) / 2) << "the middle must be a float";
      const auto narrow = [&](float f) { return TypeParam::narrow(sign ? -f : f); };
      ASSERT_EQ(narrow(middle), sign | (bits & 1 ? bits + 1 : bits)) << bits;
      ASSERT_EQ(narrow(std::nextafter(middle, 0.0f)), sign | bits) << bits;
      ASSERT_EQ(narrow(std::nextafter(middle, kInf)), sign | (bits + 1)) << bits;
    }
  }
}

TYPED_TEST(HalfTypes, EdgeFloats) {
  const uint32_t infinity = ((1u << TypeParam::kExponent) - 1) << TypeParam::kMantissa;
  EXPECT_EQ(TypeParam::narrow(0.0f), 0u);
  EXPECT_EQ(TypeParam::narrow(-0.0f), 0x8000u);
  EXPECT_EQ(TypeParam::narrow(kInf), infinity);
  EXPECT_EQ(TypeParam::narrow(-kInf), infinity | 0x8000u);
  EXPECT_EQ(TypeParam::narrow(std::numeric_limits<float>::max()), infinity);
  EXPECT_EQ(TypeParam::narrow(std::numeric_limits<float>::lowest()), infinity | 0x8000u);
  EXPECT_TRUE(std::isnan(TypeParam::widen(TypeParam::narrow(kNan))));
  EXPECT_TRUE(std::isnan(TypeParam::widen(TypeParam::narrow(-kNan))));
  // Nans whose payload lies only in bits that are cut must not become infinities.
  EXPECT_TRUE(std::isnan(TypeParam::widen(TypeParam::narrow(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isnan(TypeParam::widen(TypeParam::narrow(std::bit_cast<float>(0xffffffffu)))));
}

TEST(Half, KnownValues) {
  EXPECT_EQ(to_float16(1.0f).bits, 0x3c00);
  EXPECT_EQ(to_float16(65504.0f).bits, 0x7bff);
  EXPECT_EQ(to_float16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(to_float16(0x1p-24f).bits, 0x0001);
  EXPECT_EQ(to_float16(0x1p-25f).bits, 0x0000);
  EXPECT_EQ(to_float16(0x1.000002p-25f).bits, 0x0001);
  EXPECT_EQ(to_float16(std::numeric_limits<float>::denorm_min()).bits, 0x0000);
  EXPECT_EQ(to_bfloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(to_bfloat16(3.14159265f).bits, 0x4049);
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::denorm_min()).bits, 0x0000);
  static_assert(to_float(to_float16(0.333251953125f)) == 0.333251953125f, "usable at compile time");
  static_assert(to_float(to_bfloat16(-2.0f)) == -2.0f);
}

}  // namespace
}  // namespace smolder
