// Collectives of tensors on CUDA's devices: what is queued there where a plan comes to them.
#pragma once

#include <string_view>
#include <vector>

#include "smolder/core/buffer.h"
#include "smolder/eager/dispatcher.h"

namespace smolder::distributed {

/// Queues the collective `name`; what the device is given next comes after it.
void queue_now(const char* name, int device, const eager::KernelCall& call);
/// Queues it, and its result is there when `queue_finish` of what it writes has been queued.
/// `copies`: of what it reads.
void queue_begin(const char* name, int device, const eager::KernelCall& call, std::vector<BufferRef>& copies);
void queue_finish(int device, const eager::KernelCall& call);
/// Whether one that is begun works in its operand's memory where it may, and not beside that.
inline bool is_in_place(std::string_view name) { return name == "all_reduce"; }
/// Forgets what was begun and never finished.
void forget_begun_on_devices();

}  // namespace smolder::distributed
