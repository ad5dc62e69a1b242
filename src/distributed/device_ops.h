// Collectives of tensors on CUDA's devices: what is queued there where a plan comes to them.
#pragma once

#include "smolder/eager/dispatcher.h"

namespace smolder::distributed {

/// Queues the collective `name`; what the device is given next comes after it.
void queue_now(const char* name, int device, const eager::KernelCall& call);
/// Queues it, and its result is there when `queue_finish` of what it writes has been queued.
void queue_begin(const char* name, int device, const eager::KernelCall& call);
void queue_finish(int device, const eager::KernelCall& call);
/// Forgets what was begun and never finished.
void forget_begun_on_devices();

}  // namespace smolder::distributed
