#include "smolder/core/dtype.h"

#include <gtest/gtest.h>

#include <utility>

#include "smolder/core/scalar.h"

namespace smolder {
namespace {

constexpr DType kB = DType::kBool, kU8 = DType::kUInt8, kI8 = DType::kInt8, kI16 = DType::kInt16, kI32 = DType::kInt32,
                kI64 = DType::kInt64, kF16 = DType::kFloat16, kBF = DType::kBFloat16, kF32 = DType::kFloat32,
                kF64 = DType::kFloat64;

// torch.promote_types, rows and columns in the order of the enumeration.
constexpr DType kTorchTable[kNumDTypes][kNumDTypes] = {
    {kB, kU8, kI8, kI16, kI32, kI64, kF16, kBF, kF32, kF64},       // bool
    {kU8, kU8, kI16, kI16, kI32, kI64, kF16, kBF, kF32, kF64},     // uint8
    {kI8, kI16, kI8, kI16, kI32, kI64, kF16, kBF, kF32, kF64},     // int8
    {kI16, kI16, kI16, kI16, kI32, kI64, kF16, kBF, kF32, kF64},   // int16
    {kI32, kI32, kI32, kI32, kI32, kI64, kF16, kBF, kF32, kF64},   // int32
    {kI64, kI64, kI64, kI64, kI64, kI64, kF16, kBF, kF32, kF64},   // int64
    {kF16, kF16, kF16, kF16, kF16, kF16, kF16, kF32, kF32, kF64},  // float16
    {kBF, kBF, kBF, kBF, kBF, kBF, kF32, kBF, kF32, kF64},         // bfloat16
    {kF32, kF32, kF32, kF32, kF32, kF32, kF32, kF32, kF32, kF64},  // float32
    {kF64, kF64, kF64, kF64, kF64, kF64, kF64, kF64, kF64, kF64},  // float64
};

TEST(DType, PromotionIsTorchs) {
  for (int a = 0; a < kNumDTypes; ++a) {
    for (int b = 0; b < kNumDTypes; ++b) {
      EXPECT_EQ(promote(static_cast<DType>(a), static_cast<DType>(b)), kTorchTable[a][b])
          << name(static_cast<DType>(a)) << " with " << name(static_cast<DType>(b));
    }
  }
}

TEST(DType, ANumberPromotesByCategoryOnly) {
  // (tensor of each dtype) with a Python bool, int and float; torch.result_type.
  constexpr DType kExpected[kNumDTypes][3] = {
      {kB, kI64, kF32},   {kU8, kU8, kF32},   {kI8, kI8, kF32}, {kI16, kI16, kF32}, {kI32, kI32, kF32},
      {kI64, kI64, kF32}, {kF16, kF16, kF16}, {kBF, kBF, kBF},  {kF32, kF32, kF32}, {kF64, kF64, kF64}};
  for (int t = 0; t < kNumDTypes; ++t) {
    for (int c = 0; c < 3; ++c) {
      EXPECT_EQ(promote(static_cast<DType>(t), static_cast<Category>(c)), kExpected[t][c])
          << name(static_cast<DType>(t)) << " with category " << c;
    }
  }
  EXPECT_EQ(promote(kI32, Category::kFloat, kF64), kF64);
  EXPECT_EQ(promote(kF16, Category::kFloat, kF64), kF16);
}

TEST(DType, ComplexOnesPromoteByTheirParts) {
  EXPECT_EQ(promote(DType::kComplex64, kF64), DType::kComplex128);
  EXPECT_EQ(promote(kI64, DType::kComplex64), DType::kComplex64);
  EXPECT_EQ(promote(kBF, DType::kComplex128), DType::kComplex128);
  EXPECT_EQ(promote(kF64, Category::kComplex), DType::kComplex128);
  EXPECT_EQ(promote(kI32, Category::kComplex), DType::kComplex64);
  EXPECT_EQ(part_type(DType::kComplex128), kF64);
  EXPECT_FALSE(is_floating(DType::kComplex64));
  EXPECT_EQ(itemsize(DType::kComplex128), 16u);
}

TEST(DType, NamesParseBack) {
  for (int t = 0; t < kNumTensorDTypes; ++t) EXPECT_EQ(parse_dtype(name(static_cast<DType>(t))), static_cast<DType>(t));
  EXPECT_EQ(name(kBF), "bfloat16");
  for (const char* unknown : {"", "float", "Float32", "float32 ", "uint16", "complex32"}) {
    EXPECT_EQ(parse_dtype(unknown), std::nullopt) << unknown;
  }
}

TEST(DType, SizesAndCategories) {
  EXPECT_EQ(itemsize(kB), sizeof(bool));
  EXPECT_EQ(itemsize(kU8), 1u);
  EXPECT_EQ(itemsize(kI8), 1u);
  EXPECT_EQ(itemsize(kI16), 2u);
  EXPECT_EQ(itemsize(kI32), 4u);
  EXPECT_EQ(itemsize(kI64), 8u);
  EXPECT_EQ(itemsize(kF16), 2u);
  EXPECT_EQ(itemsize(kBF), 2u);
  EXPECT_EQ(itemsize(kF32), 4u);
  EXPECT_EQ(itemsize(kF64), 8u);
  EXPECT_EQ(category(kB), Category::kBool);
  EXPECT_EQ(category(kU8), Category::kInt);
  EXPECT_EQ(category(kI8), Category::kInt);
  EXPECT_EQ(category(kI64), Category::kInt);
  EXPECT_EQ(category(kF16), Category::kFloat);
  EXPECT_EQ(compute_type(kBF), kF32);
  EXPECT_EQ(compute_type(kF64), kF64);
  EXPECT_EQ(compute_type(kI32), kI32);
  EXPECT_EQ(compute_type(kI8), kI32);
  EXPECT_EQ(compute_type(kI16), kI32);
}

TEST(DType, LimitsOfIntegers) {
  const auto limits = [](DType t) { return std::pair(lowest_integer(t), highest_integer(t)); };
  EXPECT_EQ(limits(kB), std::pair(int64_t{0}, int64_t{1}));
  EXPECT_EQ(limits(kU8), std::pair(int64_t{0}, int64_t{255}));
  EXPECT_EQ(limits(kI8), std::pair(int64_t{-128}, int64_t{127}));
  EXPECT_EQ(limits(kI16), std::pair(int64_t{-32768}, int64_t{32767}));
  EXPECT_EQ(limits(kI32), std::pair(int64_t{INT32_MIN}, int64_t{INT32_MAX}));
  EXPECT_EQ(limits(kI64), std::pair(INT64_MIN, INT64_MAX));
}

TEST(Scalar, KeepsValueAndCategory) {
  EXPECT_EQ(Scalar(true).category(), Category::kBool);
  EXPECT_EQ(Scalar(3).category(), Category::kInt);
  EXPECT_EQ(Scalar(3.0).category(), Category::kFloat);
  EXPECT_EQ(Scalar(-7).to_int(), -7);
  EXPECT_EQ(Scalar(-7).to_double(), -7.0);
  EXPECT_EQ(Scalar(-2.9).to_int(), -2);
  EXPECT_EQ(Scalar(int64_t{1} << 62).to_int(), int64_t{1} << 62);
  EXPECT_TRUE(Scalar(0.5).to_bool());
  EXPECT_FALSE(Scalar(-0.0).to_bool());
  EXPECT_FALSE(Scalar(0).to_bool());
  EXPECT_EQ(Scalar(1.5f), Scalar(1.5));
  EXPECT_FALSE(Scalar(1) == Scalar(true));
  EXPECT_FALSE(Scalar(0.0) == Scalar(-0.0)) << "equality is by bits: a plan must not mix the two";
  for (const Scalar& s : {Scalar(true), Scalar(-3), Scalar(2.5)}) {
    EXPECT_EQ(Scalar::from_bits(s.bits(), s.category()), s);
  }
  EXPECT_EQ(Scalar(true).dtype(), kB);
  EXPECT_EQ(Scalar(1).dtype(), kI64);
  EXPECT_EQ(Scalar(1.0).dtype(), kF32);
  EXPECT_EQ(Scalar(1.0).dtype(kF64), kF64);
}

}  // namespace
}  // namespace smolder
