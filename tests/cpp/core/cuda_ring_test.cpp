#include <gtest/gtest.h>

#include <vector>

#include "smolder/core/cuda/driver.h"
#include "smolder/core/cuda/queue.h"

namespace smolder::cuda {
namespace {

/// Writes stay within a part, and a part is entered before anything is written there again: also where what
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

/// Work that the host queues faster than it ends does not pile up: at the third call the first's is done.
TEST(CudaQueue, PaceWaitsForWhatWasQueuedBeforeTheLastCall) {
  if (device_count() == 0) GTEST_SKIP() << "needs a device of CUDA, there is none";
  Queue& queue = Queue::of(0);
  constexpr size_t kBytes = 1 << 20;
  const DeviceMemory memory(0, kBytes);
  std::vector<std::unique_ptr<Event>> after;
  for (int run = 0; run < 20; ++run) {
    queue.pace();
    for (int earlier = 0; earlier + 2 <= run; ++earlier) EXPECT_TRUE(after[earlier]->done()) << earlier << " " << run;
    for (int i = 0; i < 50; ++i) fill(queue.stream(), memory.data(), static_cast<unsigned char>(i), kBytes);
    after.push_back(std::make_unique<Event>(0));
    after.back()->record(queue.stream());
  }
  queue.stream().synchronize();
}

}  // namespace
}  // namespace smolder::cuda
