#include <gtest/gtest.h>

#include "smolder/core/cuda/queue.h"

namespace smolder::cuda {
namespace {

/// What is written stays within a part, and a part is entered before anything is written there again: also where what
/// is written fills parts to their last byte.
TEST(CudaRing, WritesStayWithinAPartThatWasEntered) {
  for (const size_t step : {64u, 192u, 1024u}) {
    constexpr size_t kParts = 4, kBytes = 1024;
    RingPlaces places(kParts, kBytes);
    size_t part = 0, end = 0, entered = 0;
    for (int i = 0; i < 1000; ++i) {
      const RingPlaces::Place place = places.next(step);
      if (place.enters) {
        ++entered;
        part = (part + 1) % kParts;
        end = part * kBytes;
      }
      ASSERT_EQ(place.part, part);
      ASSERT_EQ(place.at, end);
      end += step;
      ASSERT_LE(end, (part + 1) * kBytes);
    }
    EXPECT_EQ(entered, 999 / (kBytes / step));
  }
}

}  // namespace
}  // namespace smolder::cuda
