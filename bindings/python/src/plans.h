// Plans as data for Python: see plans.cpp.
#pragma once

#include <vector>

#include "smolder/jit/plan.h"
#include "src/casters.h"

namespace smolder::python {

/// An instance's report as dicts and lists.
nb::dict plan_report(const jit::Instance& instance);
/// Seconds of each of the plan's steps in `rounds` runs, after one that is not counted. Called without the GIL.
std::vector<std::vector<double>> plan_step_seconds(const jit::Plan& plan, const jit::Instance& instance,
                                                   const jit::RunArguments& args, size_t rounds);

}  // namespace smolder::python
