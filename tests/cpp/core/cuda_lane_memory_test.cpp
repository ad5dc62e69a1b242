// Work that is captured on a lane has the memory of what went before on it, once nobody holds that.
#include <gtest/gtest.h>

#include "smolder/core/cuda/queue.h"

namespace smolder::cuda {
namespace {

TEST(LaneMemory, GoesToWhatFollowsOnTheLane) {
  LaneMemory memory;
  BufferRef first = allocate(1000), second = allocate(4000);
  void *const small = first->data(), *const large = second->data();
  memory.add(0, first);
  memory.add(0, second);
  EXPECT_FALSE(memory.find(0, 10));  // both are held
  first.reset();
  EXPECT_EQ(memory.find(0, 1000)->data(), small);
  EXPECT_FALSE(memory.find(0, 1001));
  EXPECT_FALSE(memory.find(1, 10));  // goes side by side
  second.reset();
  EXPECT_EQ(memory.find(0, 1001)->data(), large);
  const BufferRef held = memory.find(0, 10);
  EXPECT_EQ(held->data(), small);
  EXPECT_EQ(memory.find(0, 10)->data(), large);
  EXPECT_EQ(memory.take_all().size(), 2);
  EXPECT_FALSE(memory.find(0, 10));
}

}  // namespace
}  // namespace smolder::cuda
