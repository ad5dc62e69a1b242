#include "smolder/distributed/combine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "smolder/core/error.h"
#include "smolder/core/half.h"

namespace smolder::distributed {
namespace {

template <class T>
std::vector<T> combined(Reduce reduce, DType dtype, const std::vector<T>& a, const std::vector<T>& b) {
  std::vector<T> out(a.size());
  combine_of(reduce, dtype)(out.data(), a.data(), b.data(), a.size());
  std::vector<T> in_place = a;  // the result may be an operand
  combine_of(reduce, dtype)(in_place.data(), in_place.data(), b.data(), a.size());
  EXPECT_EQ(std::memcmp(out.data(), in_place.data(), out.size() * sizeof(T)), 0);
  return out;
}

TEST(Combine, IntegersWrap) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(combined<int64_t>(Reduce::kSum, DType::kInt64, {kMax, 1}, {1, 2}),
            (std::vector<int64_t>{std::numeric_limits<int64_t>::min(), 3}));
  EXPECT_EQ(combined<int32_t>(Reduce::kProduct, DType::kInt32, {1 << 30, -3}, {4, 5}), (std::vector<int32_t>{0, -15}));
  EXPECT_EQ(combined<uint8_t>(Reduce::kSum, DType::kUInt8, {250}, {10}), (std::vector<uint8_t>{4}));
  EXPECT_EQ(combined<int32_t>(Reduce::kMin, DType::kInt32, {-1, 5}, {1, 4}), (std::vector<int32_t>{-1, 4}));
  EXPECT_EQ(combined<int32_t>(Reduce::kBxor, DType::kInt32, {6, -1}, {3, 1}), (std::vector<int32_t>{5, -2}));
}

TEST(Combine, NanStays) {
  const float nan = std::nanf("");
  for (const Reduce reduce : {Reduce::kMin, Reduce::kMax}) {
    const std::vector<float> out = combined<float>(reduce, DType::kFloat32, {nan, 1}, {1, nan});
    EXPECT_TRUE(std::isnan(out[0]));
    EXPECT_TRUE(std::isnan(out[1]));
  }
}

TEST(Combine, HalvesAreRoundedToNearest) {
  const auto half = [](float f) { return to_float16(f).bits; };
  const auto brain = [](float f) { return to_bfloat16(f).bits; };
  EXPECT_EQ(combined<uint16_t>(Reduce::kSum, DType::kFloat16, {half(2048), half(65504)}, {half(1), half(65504)}),
            (std::vector<uint16_t>{half(2048), half(INFINITY)}));
  EXPECT_EQ(combined<uint16_t>(Reduce::kSum, DType::kBFloat16, {brain(256), brain(1)}, {brain(1), brain(0.5)}),
            (std::vector<uint16_t>{brain(256), brain(1.5)}));
}

TEST(Combine, BoolsStayBools) {
  for (const Reduce reduce : {Reduce::kSum, Reduce::kMax, Reduce::kBor}) {
    EXPECT_EQ(combined<uint8_t>(reduce, DType::kBool, {1, 1, 0, 0}, {1, 0, 1, 0}), (std::vector<uint8_t>{1, 1, 1, 0}));
  }
  for (const Reduce reduce : {Reduce::kProduct, Reduce::kMin, Reduce::kBand}) {
    EXPECT_EQ(combined<uint8_t>(reduce, DType::kBool, {1, 1, 0, 0}, {1, 0, 1, 0}), (std::vector<uint8_t>{1, 0, 0, 0}));
  }
}

TEST(Combine, BitsAreOfIntegers) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    EXPECT_THROW(combine_of(Reduce::kBand, dtype), TypeError);
  }
}

}  // namespace
}  // namespace smolder::distributed
