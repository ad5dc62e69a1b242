// Steps of a plan that run graphs: conditions and loops (ir/control_flow.h).
#pragma once

#include <memory>
#include <vector>

#include "smolder/jit/library/library.h"

namespace smolder::jit {

/// A branch or a loop as a step of a plan. Its graphs are plans of their own, compiled when they first run. The host
/// decides which runs, or whether a loop goes on: on a device it waits for the predicate.
std::unique_ptr<BoundLibrary> bind_control_flow(Device device, ir::Op op, std::vector<LibraryView> inputs,
                                                std::vector<LibraryView> outputs, std::vector<int64_t> attrs);

}  // namespace smolder::jit
