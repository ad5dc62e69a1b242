#include "smolder/core/interrupt.h"

#include <atomic>

namespace smolder {

namespace {
std::atomic<InterruptCheck> current = nullptr;
}  // namespace

void set_interrupt_check(InterruptCheck check) { current = check; }

void check_interrupt() {
  if (const InterruptCheck check = current.load(std::memory_order_acquire)) check();
}

}  // namespace smolder
