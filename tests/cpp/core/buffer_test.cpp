#include "smolder/core/buffer.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "smolder/core/error.h"

namespace smolder {
namespace {

constexpr size_t kMiB = 1 << 20;

bool aligned(const BufferRef& b) { return reinterpret_cast<uintptr_t>(b->data()) % kAlignment == 0; }

TEST(Buffer, EverySizeIsAlignedWritableAndApart) {
  std::vector<BufferRef> held;
  for (size_t bytes : {0u, 1u, 63u, 64u, 65u, 256u, 257u, 320u, 321u, 4095u, 4097u, 65536u, 100000u, 1u << 20,
                       (1u << 20) + 1, 3u << 20, 5000000u}) {
    held.push_back(allocate(bytes));
    EXPECT_EQ(held.back()->bytes(), bytes);
    EXPECT_EQ(held.back()->device(), Device{});
    EXPECT_TRUE(aligned(held.back())) << bytes;
    ASSERT_NE(held.back()->data(), nullptr);
    std::memset(held.back()->data(), static_cast<int>(held.size()), bytes);
  }
  for (size_t i = 0; i < held.size(); ++i) {
    const auto* data = static_cast<unsigned char*>(held[i]->data());
    for (size_t k = 0; k < held[i]->bytes(); k += 97) ASSERT_EQ(data[k], i + 1);
  }
}

TEST(Buffer, AFreedBlockIsTakenAgain) {
  for (size_t bytes : {size_t{100}, size_t{100000}, 8 * kMiB}) {
    void* first = allocate(bytes)->data();
    EXPECT_EQ(allocate(bytes)->data(), first) << bytes;
  }
}

TEST(Buffer, ABigBlockServesRequestsWithinAQuarter) {
  empty_cache();
  void* big = allocate(40 * kMiB)->data();
  EXPECT_EQ(allocate(33 * kMiB)->data(), big);
  EXPECT_NE(allocate(20 * kMiB)->data(), big) << "half of the block would be wasted";
}

TEST(Buffer, TheBestFitIsTaken) {
  empty_cache();
  BufferRef a = allocate(40 * kMiB), b = allocate(36 * kMiB), c = allocate(44 * kMiB);
  void* const best = b->data();
  a.reset();
  b.reset();
  c.reset();
  EXPECT_EQ(allocate(35 * kMiB)->data(), best);
}

TEST(Buffer, StatisticsFollowTakingAndGivingBack) {
  empty_cache();
  const MemoryStats before = memory_stats();
  EXPECT_EQ(before.cached, 0);
  reset_peak_memory();
  EXPECT_EQ(memory_stats().peak, before.live);
  {
    BufferRef a = allocate(3 * kMiB), b = allocate(1000);
    const MemoryStats now = memory_stats();
    EXPECT_GE(now.live - before.live, static_cast<int64_t>(3 * kMiB + 1000));
    EXPECT_LE(now.live - before.live, static_cast<int64_t>(3 * kMiB + 64 * 1024 + 1280));
    EXPECT_EQ(now.peak, now.live);
  }
  const MemoryStats after = memory_stats();
  EXPECT_EQ(after.live, before.live);
  EXPECT_GE(after.peak, before.live + static_cast<int64_t>(3 * kMiB));
  EXPECT_EQ(after.cached, after.peak - before.live);
  empty_cache();
  EXPECT_EQ(memory_stats().cached, 0);
}

TEST(Buffer, TheCacheIsBoundedWhenSizesNeverRepeat) {
  empty_cache();
  // The bound never falls, so it is remembered for the test's next run in this process.
  static int64_t bound = 0;
  bound = std::max<int64_t>({bound, 256 * kMiB, memory_stats().peak});
  int64_t asked = 0;
  for (size_t mib = 2; mib < 600; mib += mib / 3 + 1) {
    allocate(mib * kMiB);  // never touched: costs address space alone
    asked += static_cast<int64_t>(mib * kMiB);
    bound = std::max(bound, memory_stats().peak);
    EXPECT_LE(memory_stats().cached, bound);
  }
  EXPECT_GT(asked, 2 * bound) << "the test must ask for more than may be kept";
  empty_cache();
}

TEST(Buffer, AnImpossibleSizeSaysHowMuchWasAsked) {
  for (size_t bytes : {size_t{1} << 50, SIZE_MAX, SIZE_MAX - 100}) {
    try {
      allocate(bytes);
      FAIL() << bytes << " bytes were given";
    } catch (const OutOfMemoryError& e) {
      EXPECT_NE(std::string(e.what()).find(std::to_string(bytes)), std::string::npos) << e.what();
    }
  }
  EXPECT_EQ(allocate(16)->bytes(), 16u);
}

TEST(Buffer, FailureEmptiesTheCacheFirst) {
  allocate(4 * kMiB);
  EXPECT_GT(memory_stats().cached, 0);
  EXPECT_THROW(allocate(size_t{1} << 50), OutOfMemoryError);
  EXPECT_EQ(memory_stats().cached, 0);
}

TEST(Buffer, TheTestHookFailsTheNthAllocationOnce) {
  fail_allocation_after(3);
  allocate(8);
  allocate(8);
  EXPECT_THROW(allocate(8), OutOfMemoryError);
  EXPECT_EQ(allocate(8)->bytes(), 8u);
  fail_allocation_after(1);
  EXPECT_THROW(allocate(2 * kMiB), OutOfMemoryError);
  fail_allocation_after(1);
  fail_allocation_after(0);
  EXPECT_EQ(allocate(8)->bytes(), 8u);
}

TEST(Buffer, ADeviceThatIsNotThereIsRefused) { EXPECT_THROW(allocate(8, Device{DeviceType::kCUDA, 63}), RuntimeError); }

TEST(Buffer, ForeignMemoryIsReleasedOnceWithTheLastReference) {
  int released = 0;
  char data[32];
  const MemoryStats before = memory_stats();
  BufferRef a = wrap_foreign(data, sizeof data, Device{}, [&] { ++released; });
  BufferRef b = a;
  EXPECT_EQ(a->data(), data);
  EXPECT_EQ(a->bytes(), sizeof data);
  EXPECT_EQ(memory_stats().live, before.live);
  a.reset();
  EXPECT_EQ(released, 0);
  b.reset();
  EXPECT_EQ(released, 1);
  wrap_foreign(data, sizeof data, Device{}, {}).reset();
}

TEST(Buffer, ThreadsNeverShareABlock) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([t, &wrong] {
      std::mt19937 random(t);
      std::vector<BufferRef> held(16);
      for (int round = 0; round < 4000; ++round) {
        BufferRef& slot = held[random() % held.size()];
        if (slot && *static_cast<unsigned*>(slot->data()) != t) ++wrong;
        const size_t bytes = random() % 8 == 0 ? random() % (3 * kMiB) + 4 : random() % 5000 + 4;
        slot = allocate(bytes);
        *static_cast<unsigned*>(slot->data()) = t;
      }
    });
  }
  // Blocks are also dropped by threads that did not take them.
  BufferRef handed_over = allocate(123);
  threads.emplace_back([b = std::move(handed_over)]() mutable { b.reset(); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(Buffer, AChildForkedWhileOthersAllocateCanAllocate) {
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) allocate(1000);
  });
  for (int round = 0; round < 50; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      BufferRef small = allocate(1000), big = allocate(2 * kMiB);
      std::memset(big->data(), 1, big->bytes());
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  stop = true;
  busy.join();
}

}  // namespace
}  // namespace smolder
