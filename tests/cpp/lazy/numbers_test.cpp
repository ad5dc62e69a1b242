// Ops of numbers alone: their result is a number, whichever way they run.
#include <gtest/gtest.h>

#include "smolder/lazy/ops.h"
#include "smolder/lazy/record.h"

namespace smolder::lazy {
namespace {

TEST(Numbers, AnOpOfNumbersIsANumberInEveryMode) {
  const auto scaled = [](const Scalar& exponent) {
    const Tensor power = pow(Operand(Scalar(2.0)), Operand(exponent));
    const Tensor x = full({3}, 1.5).to(DType::kFloat32);
    return x * power;
  };
  for (const bool eager : {false, true}) {
    const EagerMode mode(eager);
    for (const Scalar& exponent : {Scalar(3.0), Scalar(int64_t{3})}) {
      const Tensor y = scaled(exponent);
      EXPECT_EQ(y.dtype(), DType::kFloat32);
      EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{12, 12, 12}));
    }
  }
}

}  // namespace
}  // namespace smolder::lazy
