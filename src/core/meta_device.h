// The device "meta": tensors on it have shapes and dtypes, and no elements. Ops on it are checked, and compute nothing.
#pragma once

#include "smolder/core/device.h"

namespace smolder {

/// The type of it, which the first call registers as one of a user's: every allocation is of nothing, and copying from
/// it throws NotImplementedError. Steps on it end without running (Tape::sync).
DeviceType meta_device_type();
inline Device meta_device() { return {meta_device_type()}; }

}  // namespace smolder
