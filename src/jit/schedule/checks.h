// Which steps may find an index out of range.
#pragma once

#include <span>

#include "smolder/jit/program.h"

namespace smolder::jit {

bool is_scatter(const Step& step);
/// Whether a step may find an index out of range, but for a scatter, whose index may be known to be good.
bool looks_at_index(const Step& step, DeviceType device);
/// Whether a user's kernel may throw in it, which ends the step. One that only waits begins nothing that may fail.
bool may_throw(const Step& step);
/// The extent of the axis in which a scatter names places.
ir::Dim axis_extent(const LibraryCall& scatter);
/// Fills Program::checks, last_check and early_checks, and Step::is_looked_at.
void find_checks(Program& program, std::span<const int> launch_of);

}  // namespace smolder::jit
