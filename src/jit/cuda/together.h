// Several calls of one kernel in one launch: a table of their arguments, in which each block finds its own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "smolder/core/cuda/driver.h"
#include "smolder/jit/backend.h"
#include "smolder/jit/cuda/schedule.h"

namespace smolder::jit::cuda {

/// Calls that a table, which is a kernel's argument, has room for; 0 where calls of the kernel cannot be run together.
int64_t most_together(const Schedule& schedule);
/// Whether it makes sense to set `Kernel::together`.
bool may_run_together(const Kernel& kernel);

struct TableLaunch {
  smolder::cuda::LaunchShape shape;
  std::vector<int64_t> words;  ///< of the table, as the generator declares it
};
/// Launches that run all calls of a kernel which has `together`: those whose blocks have the same threads share one.
std::vector<TableLaunch> launch_together(const Schedule& schedule, std::span<const KernelArguments> calls,
                                         const smolder::cuda::DeviceInfo& device);

}  // namespace smolder::jit::cuda
