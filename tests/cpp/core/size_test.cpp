#include "smolder/core/size.h"

#include <gtest/gtest.h>

#include <limits>

namespace smolder {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();

TEST(Size, RaisesWhereAResultDoesNotFit) {
  EXPECT_EQ((Size(3) + Size(2) * 5 - 1).value(), 12);
  EXPECT_EQ((Size(kMost) - kMost).value(), 0);
  EXPECT_THROW(Size(kMost) + 1, RuntimeError);
  EXPECT_THROW(Size(kLeast) - 1, RuntimeError);
  EXPECT_THROW(Size(0) - kLeast, RuntimeError);
  EXPECT_THROW(Size(int64_t{1} << 32) * (int64_t{1} << 31), RuntimeError);
  EXPECT_THROW(Size(kLeast) * -1, RuntimeError);
}

TEST(Size, IsDividedRoundingUp) {
  EXPECT_EQ(ceil_div(0, 3), 0);
  EXPECT_EQ(ceil_div(6, 3), 2);
  EXPECT_EQ(ceil_div(7, 3), 3);
  EXPECT_EQ(ceil_div(1, kMost), 1);
  EXPECT_EQ(ceil_div(kMost, 2), kMost / 2 + 1);
}

TEST(Size, OfStorageIsWhatInt64Holds) {
  EXPECT_EQ(storage_bytes({}, DType::kFloat64), 8);
  EXPECT_EQ(storage_bytes({2, 3}, DType::kFloat32), 24);
  EXPECT_EQ(storage_bytes({2, 0, 3}, DType::kFloat32), 0);
  EXPECT_EQ(storage_bytes({kMost}, DType::kBool), kMost);
  EXPECT_THROW(storage_bytes({int64_t{1} << 61}, DType::kFloat32), RuntimeError);
  EXPECT_THROW(storage_bytes({0, int64_t{1} << 40, int64_t{1} << 40}, DType::kBool), RuntimeError);
  EXPECT_THROW(numel({int64_t{1} << 40, int64_t{1} << 40}), RuntimeError);
  EXPECT_THROW(contiguous_strides({1, int64_t{1} << 40, int64_t{1} << 40}), RuntimeError);
}

}  // namespace
}  // namespace smolder
