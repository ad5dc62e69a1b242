#include "smolder/lazy/modes.h"

#include <utility>

#include "smolder/core/cuda/driver.h"

namespace smolder::lazy {

SMOLDER_THREAD_LOCAL Modes t_modes;

Device creation_device() {
  const Device mode = t_modes.device;
  return mode.index >= 0 ? mode : Device(DeviceType::kCUDA, cuda::current_device());
}
Device creation_mode() { return t_modes.device; }
void set_creation_device(Device device) { t_modes.device = device; }
DeviceMode::DeviceMode(Device device) : before_(std::exchange(t_modes.device, device)) {}
DeviceMode::DeviceMode(const Tensor& operand) : DeviceMode(operand.defined() ? operand.device() : creation_mode()) {}
DeviceMode::DeviceMode(TensorList operands)
    : DeviceMode(operands.size() > 0 ? operands.data()[0].device() : creation_mode()) {}
DeviceMode::~DeviceMode() { t_modes.device = before_; }

}  // namespace smolder::lazy
