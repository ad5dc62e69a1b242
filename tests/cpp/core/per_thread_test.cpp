#include "smolder/core/per_thread.h"

#include <gtest/gtest.h>
#include <link.h>

#include <atomic>
#include <string_view>
#include <thread>

namespace smolder {
namespace {

std::atomic<int> g_alive{0};

struct Counted {
  int value = 0;
  Counted() { ++g_alive; }
  ~Counted() { --g_alive; }
};

const PerThread<Counted> g_counted;
const PerThread<Counted> g_other;

TEST(PerThread, EachThreadHasItsOwnUntilItEnds) {
  g_counted->value = 1;
  g_other->value = 2;
  EXPECT_EQ(g_alive, 2);
  std::thread([] {
    EXPECT_EQ(g_counted->value, 0);
    g_counted->value = 3;
    EXPECT_EQ(g_alive, 3);
  }).join();
  EXPECT_EQ(g_alive, 2);
  EXPECT_EQ(g_counted->value, 1);
  EXPECT_EQ(g_other->value, 2);
}

TEST(PerThread, AValueMayAskForAnotherWhenItIsMade) {
  struct Outer {
    int inner = g_counted->value + 5;
  };
  static const PerThread<Outer> outer;
  std::thread([] { EXPECT_EQ(outer->inner, 5); }).join();
}

TEST(PerThread, ThreadLocalsLeaveRoomForLibrariesThatAreLoadedLater) {
  size_t bytes = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* library, size_t, void* out) {
        if (std::string_view(library->dlpi_name).find("libsmolder.so") == std::string_view::npos) return 0;
        for (int i = 0; i < library->dlpi_phnum; ++i) {
          if (library->dlpi_phdr[i].p_type == PT_TLS) *static_cast<size_t*>(out) = library->dlpi_phdr[i].p_memsz;
        }
        return 1;
      },
      &bytes);
  EXPECT_GT(bytes, 0U);
  EXPECT_LE(bytes, 400U) << "see PerThread: PyTorch cannot be imported after a library that takes the loader's reserve";
}

}  // namespace
}  // namespace smolder
