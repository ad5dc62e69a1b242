// Where a tensor lives.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace smolder {

enum class DeviceType : uint8_t { kCPU, kCUDA };

/// A device type with an index; "cpu" and "cuda:1" are the printed forms.
struct Device {
  DeviceType type = DeviceType::kCPU;
  int8_t index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

/// torch's form: "cpu", "cuda:0".
std::string to_string(Device d);
/// Accepts torch's forms ("cpu", "cuda", "cuda:1"). Throws RuntimeError naming what was given.
Device parse_device(std::string_view text);

}  // namespace smolder
