#include "smolder/lazy/lock.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace smolder::lazy {
namespace {

WaitHooks g_hooks{};

}  // namespace

void set_wait_hooks(WaitHooks hooks) { g_hooks = hooks; }

namespace {

/// How long a reservation keeps other threads out that want the lock.
constexpr std::chrono::seconds kLongestReservation{1};

SMOLDER_THREAD_LOCAL char t_of_thread = 0;  // its address tells threads apart

}  // namespace

bool Lock::reserve(std::atomic<bool>* lost) {
  if (reserved_.load()) return false;
  owner_ = &t_of_thread;
  lost_ = lost;
  reserved_ = true;
  return true;
}

void Lock::release() {
  State expected = kReserved;
  reserved_ = false;
  state_.compare_exchange_strong(expected, kFree);  // while it is taken, unlock() sees to it, or is_mine()
}

/// Whether this thread has taken the lock where it found it like this.
bool Lock::is_mine(State before) {
  return before == kFree || (before == kReserved && (!reserved_.load() || owner_.load() == &t_of_thread));
}

void Lock::wait(State before) {
  using std::chrono::microseconds;
  using std::chrono::steady_clock;
  constexpr int kSpins = 64;
  microseconds nap{1};
  steady_clock::time_point patience{};
  for (int i = 0; !is_mine(before); ++i) {
    if (before == kReserved) {
      const auto now = steady_clock::now();
      if (patience == steady_clock::time_point()) patience = now + kLongestReservation;
      if (now > patience) {
        lost_->store(true);
        reserved_ = false;
        return;
      }
      unlock();
    }
    if (i < kSpins) {
      std::this_thread::yield();
    } else {
      void* const given = g_hooks.let_go ? g_hooks.let_go() : nullptr;
      do {
        std::this_thread::sleep_for(nap);
        nap = std::min(nap * 2, microseconds{50});
      } while (state_.load(std::memory_order_relaxed) == kTaken);
      if (given) g_hooks.take_back(given);  // before the lock is taken: who holds it may want what was given
    }
    before = state_.load(std::memory_order_relaxed);
    if (before != kTaken) before = state_.exchange(kTaken, std::memory_order_acquire);
  }
}

}  // namespace smolder::lazy
