// Which devices there are code generators for. No other file of the compiler includes what is in the folder of a device
// (tools/check_layers).
#include "smolder/jit/cuda/target.h"
#include "smolder/jit/device_target.h"

namespace smolder::jit {

DeviceTarget* DeviceTarget::of(DeviceType type) { return type == DeviceType::kCUDA ? &cuda::target() : nullptr; }

}  // namespace smolder::jit
