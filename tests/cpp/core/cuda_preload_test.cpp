#include "smolder/core/cuda/preload.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>

namespace smolder::cuda {
namespace {

TEST(CudaPreloadDeathTest, IsDoneBeforeTheProcessEndsWhateverFails) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto ends_early = [] {
    add_preload([](int) { throw std::runtime_error("not there"); });
    add_preload([](int device) {
      finish_preload_before_exit();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      std::fprintf(stderr, "done for device %d\n", device);
    });
    start_preload(3);
    start_preload(4);
    std::exit(7);
  };
  EXPECT_EXIT(ends_early(), testing::ExitedWithCode(7), "^done for device 3\n$");
}

}  // namespace
}  // namespace smolder::cuda
