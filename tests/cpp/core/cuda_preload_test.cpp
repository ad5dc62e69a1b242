#include "smolder/core/cuda/preload.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>

namespace smolder::cuda {
namespace {

/// Work that fails, and work that takes a while and says so.
void add_some() {
  add_preload([](int) { throw std::runtime_error("not there"); });
  add_preload([](int device) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::fprintf(stderr, "done for device %d\n", device);
  });
}

TEST(CudaPreloadDeathTest, IsDoneBeforeTheProcessEndsWhateverFails) {
  const auto ends_early = [] {
    add_some();
    promise_to_finish_preload();
    start_preload(3);
    start_preload(4);
    finish_preload();
    finish_preload();
    start_preload(5);
    std::exit(7);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(ends_early(), testing::ExitedWithCode(7), "^done for device 3\n$");
}

// `exit` would take down what a thread still opens: a library's own handlers come before any that could wait for it.
TEST(CudaPreloadDeathTest, IsNotStartedWhereNobodyWaitsForIt) {
  const auto ends_early = [] {
    add_some();
    start_preload(3);
    std::exit(7);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(ends_early(), testing::ExitedWithCode(7), "^$");
}

TEST(CudaPreloadDeathTest, IsHarmlessWhereAProcessEndsAtOnce) {
  const auto ends_at_once = [] {
    add_some();
    promise_to_finish_preload();
    start_preload(3);
    _exit(7);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(ends_at_once(), testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace smolder::cuda
