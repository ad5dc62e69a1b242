// NVIDIA's devices, as the compiler knows them.
#pragma once

#include "smolder/jit/device_target.h"

namespace smolder::jit::cuda {

DeviceTarget& target();

}  // namespace smolder::jit::cuda
