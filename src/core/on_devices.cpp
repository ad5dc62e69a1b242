// Functions that each kind of device has its own of, users' included: names, memory, and copies from and to it.
#include <array>
#include <atomic>
#include <charconv>
#include <cstring>
#include <mutex>

#include "smolder/core/buffer.h"
#include "smolder/core/cpu_memory.h"
#include "smolder/core/cuda/driver.h"
#include "smolder/core/cuda/memory.h"
#include "smolder/core/device.h"
#include "smolder/core/error.h"
#include "smolder/core/fork.h"

namespace smolder {
namespace {

/// Devices that users registered; never taken away.
struct UserType {
  std::string name;
  DeviceMemory memory;
};
constexpr int kFirst = static_cast<int>(DeviceType::kFirstUser);
std::array<std::atomic<const UserType*>, kMaxDeviceTypes> g_types{};  ///< from kFirst on, filled in order
ForkMutex g_registering;

const UserType* user_type(int type) {
  return type < kMaxDeviceTypes ? g_types[type].load(std::memory_order_acquire) : nullptr;
}

/// The type of this name, or -1; appends the names there are to `known`.
int find_type(std::string_view name, std::string& known) {
  known = "cpu, cuda";
  if (name == "cpu") return static_cast<int>(DeviceType::kCPU);
  if (name == "cuda") return static_cast<int>(DeviceType::kCUDA);
  for (int t = kFirst; const UserType* const user = user_type(t); ++t) {
    if (user->name == name) return t;
    known += ", " + user->name;
  }
  return -1;
}

}  // namespace

DeviceType register_device_type(std::string name, DeviceMemory memory) {
  const std::lock_guard hold(g_registering);
  std::string known;
  const bool word =
      !name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789") == std::string::npos;
  SMOLDER_CHECK(word, ValueError, "'", name, "' is no name for a device: small letters, digits and _ are");
  SMOLDER_CHECK(find_type(name, known) < 0, ValueError, "there is a device called ", name, " already");
  SMOLDER_CHECK(memory.allocate && memory.release && memory.to_host && memory.from_host, ValueError, "the device ",
                name, " lacks one of allocate, release, to_host and from_host");
  int type = kFirst;
  while (user_type(type)) ++type;
  SMOLDER_CHECK(type < kMaxDeviceTypes, ValueError, "no room for the device ", name, ": there are ", known);
  g_types[type].store(new UserType{std::move(name), std::move(memory)}, std::memory_order_release);
  return static_cast<DeviceType>(type);
}

const DeviceMemory& device_memory(DeviceType type) {
  const UserType* const user = user_type(static_cast<int>(type));
  SMOLDER_CHECK(user, ValueError, "no user registered device type ", static_cast<int>(type));
  return user->memory;
}

namespace {

BufferRef allocate_on(size_t bytes, Device device) {
  const DeviceMemory& memory = device_memory(device.type);
  void* const data = memory.allocate(bytes);
  SMOLDER_CHECK(data, OutOfMemoryError, "out of memory: ", to_string(device), " has no ", bytes, " bytes");
  return wrap_foreign(data, bytes, device, [&memory, data, bytes] { memory.release(data, bytes); });
}

}  // namespace

BufferRef allocate(size_t bytes, Device device) {
  if (device.type >= DeviceType::kFirstUser) return allocate_on(bytes, device);
  if (device.type == DeviceType::kCUDA) return cuda::allocate(bytes, device.index);
  return allocate_on_cpu(bytes);
}

void copy_to_host(void* to, const void* from, size_t bytes, Device device) {
  if (device == DeviceType::kCPU) {
    std::memcpy(to, from, bytes);
  } else if (device == DeviceType::kCUDA) {
    cuda::copy_to_host(to, from, bytes, device.index);
  } else {
    device_memory(device.type).to_host(to, from, bytes);
  }
}

void copy_from_host(void* to, const void* from, size_t bytes, Device device) {
  if (device == DeviceType::kCPU) {
    std::memcpy(to, from, bytes);
  } else if (device == DeviceType::kCUDA) {
    cuda::copy_from_host(to, from, bytes, device.index);
  } else {
    device_memory(device.type).from_host(to, from, bytes);
  }
}

std::string to_string(Device d) {
  if (d.type == DeviceType::kCPU) return "cpu";
  const UserType* const user = user_type(static_cast<int>(d.type));
  return (user ? user->name : "cuda") + ":" + std::to_string(d.index);
}

Device parse_device(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view type = text.substr(0, colon);
  std::string known;
  const int found = find_type(type, known);
  SMOLDER_CHECK(found >= 0, RuntimeError, "Expected one of ", known, " device type at start of device string: ", type);
  Device d{static_cast<DeviceType>(found), 0};
  if (colon == std::string_view::npos) return d == DeviceType::kCUDA ? Device(d.type, cuda::current_device()) : d;

  const std::string_view digits = text.substr(colon + 1);
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), d.index);
  SMOLDER_CHECK(failure == std::errc{} && end == digits.data() + digits.size() && d.index >= 0, RuntimeError,
                "Invalid device string: '", text, "'; the index must be a whole number from 0 to 127");
  SMOLDER_CHECK(d.type == DeviceType::kCUDA || d.index == 0, RuntimeError, "Invalid device string: '", text,
                "'; there is one ", type, " device, '", type, "'");
  return d;
}

}  // namespace smolder
