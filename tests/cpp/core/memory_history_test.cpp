#include "smolder/core/memory_history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "smolder/core/buffer.h"

namespace smolder {
namespace {

class MemoryHistoryTest : public testing::Test {
 protected:
  void TearDown() override {
    stop_memory_history();
    start_memory_history(0);
    stop_memory_history();
  }
};

const HeldMemory* find(const MemoryHistory& h, const BufferRef& buffer) {
  const auto at = std::find_if(h.held.begin(), h.held.end(), [&](const HeldMemory& b) {
    return b.address == reinterpret_cast<uintptr_t>(buffer->data());
  });
  return at == h.held.end() ? nullptr : &*at;
}

TEST_F(MemoryHistoryTest, OffNobodyWatches) {
  EXPECT_FALSE(memory_is_watched());
  const BufferRef before = allocate(1000);
  start_memory_history(10);
  EXPECT_TRUE(memory_is_watched());
  EXPECT_TRUE(memory_history().held.empty());  // what was taken before is not known
  stop_memory_history();
  EXPECT_FALSE(memory_is_watched());
}

TEST_F(MemoryHistoryTest, SaysWhatIsHeldAndForWhat) {
  start_memory_history(10);
  BufferRef small, big;
  {
    const MemoryFor outer("outer", 1);
    {
      const MemoryFor inner("inner", 2);
      small = allocate(1000);
    }
    big = allocate(3 << 20);
  }
  const BufferRef nobodys = allocate(64);
  MemoryHistory h = memory_history();
  ASSERT_EQ(h.held.size(), 3u);
  EXPECT_EQ(find(h, small)->use.what, "inner");
  EXPECT_EQ(find(h, small)->bytes, 1000u);
  EXPECT_EQ(find(h, small)->size, 1024u);
  EXPECT_EQ(find(h, big)->use.what, "outer");
  EXPECT_EQ(find(h, big)->use.source, 1u);
  EXPECT_EQ(find(h, nobodys)->use.what, "");
  note_given_on(small->data(), "relu_", 5);
  EXPECT_EQ(find(memory_history(), small)->use.source, 5u);
  big.reset();
  h = memory_history();
  ASSERT_EQ(h.held.size(), 2u);
  ASSERT_EQ(h.events.size(), 5u);
  EXPECT_EQ(h.events[3].kind, MemoryEvent::kGivenOn);
  EXPECT_EQ(h.events[4].kind, MemoryEvent::kGivenBack);
  EXPECT_EQ(h.events[4].block.use.what, "outer");
}

TEST_F(MemoryHistoryTest, KeepsTheLatestEvents) {
  start_memory_history(3);
  for (int i = 0; i < 10; ++i) allocate(64 * (i + 1));
  const MemoryHistory h = memory_history();
  ASSERT_EQ(h.events.size(), 3u);
  EXPECT_EQ(h.events.back().block.bytes, 640u);
  EXPECT_TRUE(h.held.empty());
}

TEST_F(MemoryHistoryTest, ThreadsTellAtOnce) {
  start_memory_history(1 << 20);
  const int64_t before = memory_stats().live;
  std::vector<std::thread> threads;
  std::vector<BufferRef> kept(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&kept, t] {
      for (int i = 0; i < 1000; ++i) allocate(64);
      const MemoryFor use("kept", static_cast<SourceToken>(t));
      kept[t] = allocate(100000);
    });
  }
  for (std::thread& t : threads) t.join();
  const MemoryHistory h = memory_history();
  ASSERT_EQ(h.held.size(), 4u);
  int64_t size = 0;
  for (const HeldMemory& b : h.held) size += static_cast<int64_t>(b.size);
  EXPECT_EQ(size, memory_stats().live - before);
}

}  // namespace
}  // namespace smolder
