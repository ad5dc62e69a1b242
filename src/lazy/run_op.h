// An op by itself: in eager mode, and where a step cannot run as a plan.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "smolder/core/source_line.h"
#include "smolder/eager/array.h"

namespace smolder::lazy {

/// eager::execute, with a span for who profiles. `source`: the line that recorded the op.
std::vector<eager::Array> run_op(ir::Op op, std::span<const eager::Array> inputs, std::span<const int64_t> attrs,
                                 Device device, SourceToken source);

}  // namespace smolder::lazy
