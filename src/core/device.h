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

/// A device type with an index; "cpu" and "cuda:1" are the printed forms.
struct Device {
  DeviceType type = DeviceType::kCPU;
  int8_t index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

/// What memory of a device is that users register. Addresses need not be readable by the host.
struct DeviceMemory {
  /// Null when there is no more.
  std::function<void*(size_t bytes)> allocate;
  std::function<void(void* data, size_t bytes)> release;
  std::function<void(void* to, const void* from, size_t bytes)> to_host, from_host;
};
/// Adds a type of devices. Throws ValueError when the name is taken or no identifier, when there is no room, or when a
/// function is missing.
DeviceType register_device_type(std::string name, DeviceMemory memory);
/// Of CUDA (the functions that copy), or of a type that was registered.
const DeviceMemory& device_memory(DeviceType type);

/// torch's form: "cpu", "cuda:0".
std::string to_string(Device d);
/// Accepts torch's forms ("cpu", "cuda", "cuda:1"). Throws RuntimeError naming what was given.
Device parse_device(std::string_view text);

}  // namespace smolder
