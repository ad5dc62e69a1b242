#include "smolder/lazy/lock.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace smolder::lazy {
namespace {

WaitHooks g_hooks{};

}  // namespace

void set_wait_hooks(WaitHooks hooks) { g_hooks = hooks; }

void Lock::wait() {
  using std::chrono::microseconds;
  constexpr int kSpins = 64;
  for (int i = 0; i < kSpins; ++i) {
    if (!taken_.load(std::memory_order_relaxed) && try_lock()) return;
    std::this_thread::yield();
  }
  microseconds nap{1};
  do {
    void* const given = g_hooks.let_go ? g_hooks.let_go() : nullptr;
    do {
      std::this_thread::sleep_for(nap);
      nap = std::min(nap * 2, microseconds{50});
    } while (taken_.load(std::memory_order_relaxed));
    if (given) g_hooks.take_back(given);  // before the lock is taken: who holds it may want what was given
  } while (!try_lock());
}

}  // namespace smolder::lazy
