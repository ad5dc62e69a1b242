#include "smolder/core/interrupt.h"

#include <atomic>
#include <chrono>
#include <utility>

#include "smolder/core/per_thread.h"

namespace smolder {

namespace {
std::atomic<InterruptCheck> current = nullptr;
thread_local InterruptCheck t_own = nullptr;
}  // namespace

void set_interrupt_check(InterruptCheck check) { current = check; }

void check_interrupt() {
  if (t_own) return t_own();
  if (const InterruptCheck check = current.load(std::memory_order_acquire)) check();
}

InterruptScope::InterruptScope(InterruptCheck check) : outer_(std::exchange(t_own, check)) {}
InterruptScope::~InterruptScope() { t_own = outer_; }

void check_interrupt_between() {
  using Clock = std::chrono::steady_clock;
  constexpr auto kApart = std::chrono::milliseconds(50);
  static const PerThread<Clock::time_point> asked;
  const Clock::time_point now = Clock::now();
  if (now - *asked < kApart) return;
  *asked = now;
  check_interrupt();
}

}  // namespace smolder
