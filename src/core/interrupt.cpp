#include "smolder/core/interrupt.h"

#include <atomic>
#include <utility>

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

}  // namespace smolder
