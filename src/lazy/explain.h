// A report of steps, as text: for C++ programs. Python's smolder.explain says more (docs/explain.md).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "smolder/core/device.h"
#include "smolder/lazy/step_log.h"

namespace smolder {

/// Calls f once and says what its steps became: what ended each, why it was compiled, its kernels with ops, bytes and
/// the median time of some runs, and which neighbours are not one kernel and why. What is pending runs before and
/// after.
std::string explain(const std::function<void()>& f);

/// The same of the step that a device ran last, timed with stand-ins for what it read; empty when none has run.
std::string explain_last_step(Device device = {});

namespace lazy {

/// The step that a device ran last: its trace with its latest plan. Nothing where it has none.
std::optional<RanStep> last_step(Device device);

}  // namespace lazy

}  // namespace smolder
