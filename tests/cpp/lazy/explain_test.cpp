// Explanations of steps, as text.
#include "smolder/lazy/explain.h"

#include <gtest/gtest.h>

#include "smolder/lazy/ops.h"
#include "smolder/lazy/record.h"

namespace smolder {
namespace {

TEST(Explain, TellsGraphsKernelsAndWhatEndedThem) {
  const Tensor x = full({64, 32}, 0.5);
  mark_step();
  double sum = 0;
  const std::string text = explain([&] {
    const Tensor y = relu(x * 3);
    sum = y.sum().item().to_double();
    (void)(y + sum).mean().item();
  });
  EXPECT_EQ(sum, 64 * 32 * 1.5);
  EXPECT_NE(text.find("graph 0 on cpu: 3 ops, ended by item"), std::string::npos) << text;
  EXPECT_NE(text.find("graph 1 on cpu: 2 ops, ended by item"), std::string::npos) << text;
  EXPECT_NE(text.find("mul relu"), std::string::npos) << text;
  EXPECT_EQ(text.find(" - "), std::string::npos) << text;  // all was timed
}

TEST(Explain, WritesNothingTwice) {
  Tensor x = full({8}, 1.0);
  mark_step();
  (void)explain([&] { x.mul_(2.0); });
  EXPECT_EQ(x.sum().item().to_double(), 16.0);
}

TEST(Explain, TellsTheLastStep) {
  const Tensor y = exp(full({5}, 1.0));
  mark_step();
  const std::string text = explain_last_step();
  EXPECT_NE(text.find("2 ops"), std::string::npos) << text;
  EXPECT_NE(text.find("exp"), std::string::npos) << text;
  EXPECT_NE(text.find("ended by mark_step"), std::string::npos) << text;
}

}  // namespace
}  // namespace smolder
