// The storage that a tensor had before `self.data = t`: its views and aliases keep it, as in torch. They are not known,
// so each finds out when it is used next: the version of its base that it saw last is from before the assignment.
#pragma once

#include <atomic>

#include "smolder/lazy/value.h"

namespace smolder::lazy {

class TensorImpl;

extern std::atomic<bool> g_any_former;
/// Whether any tensor was ever given another's storage: else none of this is looked at.
inline bool any_former() { return g_any_former.load(std::memory_order_relaxed); }

/// Before `self` gets other storage: what views and aliases of it, if there are any, are of from now on.
void leave_storage(TensorImpl* self);
/// Makes a view or an alias one of the storage that it was made of, if its base has left that; whether it had.
bool follow_storage(TensorImpl* view);
/// A view or an alias of `base` was made.
void count_dependent(TensorImpl* base);
/// A view or an alias goes, and storage that nobody else is of with it.
void forget_storage(TensorImpl* dying);

}  // namespace smolder::lazy
