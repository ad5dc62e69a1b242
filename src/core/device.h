// Where a tensor lives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace smolder {

/// Types that users register take the numbers from `kFirstUser` on.
enum class DeviceType : uint8_t { kCPU, kCUDA, kFirstUser };
inline constexpr int kMaxDeviceTypes = 8;

/// Devices of CUDA that a process can use; there is one of each other type.
inline constexpr int kMaxCudaDevices = 64;

/// A device type with an index; "cpu" and "cuda:1" are the printed forms.
struct Device {
  DeviceType type = DeviceType::kCPU;
  int8_t index = 0;
  constexpr Device() = default;
  constexpr Device(DeviceType type, int index = 0) : type(type), index(static_cast<int8_t>(index)) {}
  friend constexpr bool operator==(Device a, Device b) { return a.type == b.type && a.index == b.index; }
  /// Whether it is of a type, whichever it is.
  friend constexpr bool operator==(Device d, DeviceType type) { return d.type == type; }
};

/// Numbers devices, for tables of what there is one of a device. Only CUDA has several.
constexpr size_t number_of(Device d) {
  return static_cast<size_t>(d.index == 0 ? static_cast<int>(d.type) : kMaxDeviceTypes - 1 + d.index);
}
inline constexpr size_t kMaxDevices = kMaxDeviceTypes + kMaxCudaDevices - 1;

/// The memory of a device that users register. Addresses need not be readable by the host.
struct DeviceMemory {
  /// Null when there is no more.
  std::function<void*(size_t bytes)> allocate;
  std::function<void(void* data, size_t bytes)> release;
  std::function<void(void* to, const void* from, size_t bytes)> to_host, from_host;
};
/// Adds a type of devices. Throws ValueError when the name is taken or no identifier, when there is no room, or when a
/// function is missing.
DeviceType register_device_type(std::string name, DeviceMemory memory);
/// The device of a type that was registered.
const DeviceMemory& device_memory(DeviceType type);
/// Copies between memory of the host and of a device, there after all that was queued, and waits until it is done.
void copy_to_host(void* to, const void* from, size_t bytes, Device device);
void copy_from_host(void* to, const void* from, size_t bytes, Device device);

/// torch's form: "cpu", "cuda:0".
std::string to_string(Device d);
/// Accepts torch's forms ("cpu", "cuda", "cuda:1"); without an index it is the thread's current device. Throws
/// RuntimeError naming what was given. There need not be such a device.
Device parse_device(std::string_view text);

}  // namespace smolder
