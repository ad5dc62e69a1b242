#include "smolder/lazy/lock.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace smolder::lazy {

void Lock::wait() {
  using std::chrono::microseconds;
  constexpr int kSpins = 64;
  microseconds nap{1};
  for (int i = 0;; ++i) {
    if (!taken_.load(std::memory_order_relaxed) && try_lock()) return;
    if (i < kSpins) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(nap);
      nap = std::min(nap * 2, microseconds{50});
    }
  }
}

}  // namespace smolder::lazy
