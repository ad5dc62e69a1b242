#pragma once

#include <optional>

#include "smolder/jit/program.h"

namespace smolder::jit {

/// Rewrites the graph's ops into primitives, by the rows of the op table.
void decompose(Program& program);
/// Makes cats of more parts than a kernel should choose among library steps.
void take_wide_cats_whole(Program& program);

/// The first primitive that the op-level `graph` comes to and loop IR cannot say; empty when there is none.
std::optional<ir::Op> find_fallback(const ir::Graph& graph, DeviceType device);

}  // namespace smolder::jit
