// A stand-in for the other ranks: steps with collectives run alone in one process, as when one that was kept in a file
// is replayed.
#pragma once

#include "smolder/eager/dispatcher.h"

namespace smolder::distributed {

/// Collectives of groups that this process has not got take what the other ranks would send from this rank's operand,
/// again and again, and zeros where it has none.
void stand_in_for_peers();
bool stands_in(int64_t group);

/// Stands in for a collective: its result is made of its operand. Both are row-major.
void stand_in(const eager::TensorView& from, const eager::TensorView& to);
/// The same of a device, in the order of its queue.
void stand_in_on_device(int device, const eager::TensorView& from, const eager::TensorView& to);

}  // namespace smolder::distributed
