// Ctrl-C during work of ours that takes long.
#pragma once

#include "smolder/core/error.h"

namespace smolder {

/// The user asked to stop. What had been recorded is as it was, and may be run later.
class Interrupted : public ForeignError {
 public:
  using ForeignError::ForeignError;
};

/// Throws what derives from Interrupted if the user has asked to stop. Called on the thread
/// that does the work.
using InterruptCheck = void (*)();

/// Has `check` asked where work can stop without a trace; null, as at the start: nothing is asked.
void set_interrupt_check(InterruptCheck check);

/// A place where work can stop.
void check_interrupt();
/// The same between pieces of work that may be short: asks so rarely that it costs nothing, and 20 times a second.
void check_interrupt_between();

/// While it lives, `check` is asked on this thread in the place of that: what works behind the program stops for
/// reasons of its own.
class InterruptScope {
 public:
  explicit InterruptScope(InterruptCheck check);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;

 private:
  const InterruptCheck outer_;
};

}  // namespace smolder
