// How long the steps of a plan take.
#pragma once

#include <vector>

#include "smolder/jit/plan.h"

namespace smolder::jit {

/// Seconds of each of the plan's steps in `rounds` runs, after one that is not counted.
std::vector<std::vector<double>> step_seconds(const Plan& plan, const Instance& instance, const RunArguments& args,
                                              size_t rounds);

}  // namespace smolder::jit
