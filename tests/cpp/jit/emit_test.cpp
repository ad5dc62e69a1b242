// Which kernels a step waits for, and which something slower runs until they are compiled.
#include "smolder/jit/emit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace smolder::jit::test {
namespace {

using Numbers = std::vector<size_t>;

/// Waited for, of kernels of so much work, but for those that stand in, which are added to `interpreted`.
Numbers waited(const std::vector<double>& work, double most, Numbers& interpreted, const Numbers& without = {}) {
  return kernels_to_wait_for(work, most, [&](size_t i) {
    for (const size_t other : without) {
      if (other == i) return false;
    }
    interpreted.push_back(i);
    return true;
  });
}

TEST(KernelsToWaitFor, AreThoseOfMuchWork) {
  constexpr double kMost = kMostInterpretedWork;
  Numbers interpreted;
  EXPECT_EQ(waited({1.01 * kMost}, kMost, interpreted), Numbers{0});
  EXPECT_EQ(interpreted, Numbers{});
  EXPECT_EQ(waited({kMost}, kMost, interpreted), Numbers{});
  EXPECT_EQ(interpreted, Numbers{0});
}

TEST(KernelsToWaitFor, AreThoseThatAreTooMuchTogether) {
  Numbers interpreted;
  EXPECT_EQ(waited({6, 1, 3, 2, 1}, 5, interpreted), (Numbers{2, 0})) << "least work first";
  EXPECT_EQ(interpreted, (Numbers{1, 4, 3}));
}

TEST(KernelsToWaitFor, TakeNoShareOfWhatIsInterpreted) {
  Numbers interpreted;
  EXPECT_EQ(waited({6, 2, 3, 2}, 5, interpreted, {1}), (Numbers{1, 0}));
  EXPECT_EQ(interpreted, (Numbers{3, 2}));
}

TEST(KernelsToWaitFor, AreNoneWhereNothingIsTooMuch) {
  Numbers interpreted;
  EXPECT_EQ(waited({1e12, 1e15}, HUGE_VAL, interpreted), Numbers{});
  EXPECT_EQ(interpreted, (Numbers{0, 1}));
  EXPECT_EQ(waited({}, 1, interpreted), Numbers{});
}

}  // namespace
}  // namespace smolder::jit::test
