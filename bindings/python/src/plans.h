// Plans as data for Python: see plans.cpp.
#pragma once

#include "smolder/jit/plan.h"
#include "src/casters.h"

namespace smolder::python {

/// An instance's report as dicts and lists.
nb::dict plan_report(const jit::Instance& instance);

}  // namespace smolder::python
