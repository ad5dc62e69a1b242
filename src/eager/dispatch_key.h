// Which set of kernels runs an op.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "smolder/core/device.h"

namespace smolder::eager {

/// One column of the dispatch table. Backends that users add take the numbers from `kFirstUser` on.
enum class DispatchKey : uint8_t { kCPU, kCUDA, kFirstUser };
inline constexpr int kMaxDispatchKeys = 16;

/// The column that serves a device, and the other way. A backend that was added without memory of its own works on
/// the CPU's.
DispatchKey dispatch_key(Device d);
Device device_of(DispatchKey key);

/// "CPU", "CUDA", or the name a user's backend was added under.
std::string name(DispatchKey key);
/// Adds a backend's column. Throws ValueError when the name is taken or empty, or when the table is full.
DispatchKey add_dispatch_key(std::string name);
/// Adds a type of devices with memory of its own, and the column of its kernels, which has its name.
DispatchKey add_device(std::string name, DeviceMemory memory);
/// Inverse of `name`. Throws ValueError listing the known names.
DispatchKey find_dispatch_key(std::string_view name);

}  // namespace smolder::eager
