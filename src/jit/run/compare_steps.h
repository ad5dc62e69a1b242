// A run of a plan in which each step is compared with its primitives, run one by one on the memory that it read.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "smolder/eager/array.h"
#include "smolder/jit/plan.h"

namespace smolder::jit {

/// A result of a step that is not, in every bit, what its primitives make.
struct StepDifference {
  size_t step = 0;
  eager::Array got, wanted;
};

struct ComparedRun {
  std::vector<StepDifference> differences;  ///< in the order of the steps
  std::vector<size_t> skipped;              ///< steps that there is nothing to compare with
};

/// Runs `instance`, which was bound to `symbols`, once. Primitives run on the host, whose bits a device need not have.
ComparedRun run_compared(const Instance& instance, std::span<const int64_t> symbols, const RunArguments& args);

}  // namespace smolder::jit
