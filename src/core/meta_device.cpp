#include "smolder/core/meta_device.h"

#include <cstddef>

#include "smolder/core/error.h"

namespace smolder {
namespace {

/// The address where memory of the device begins: nobody reads or writes there.
alignas(std::max_align_t) std::byte g_nothing;

}  // namespace

DeviceType meta_device_type() {
  static const DeviceType type = register_device_type(
      "meta", {.allocate = [](size_t) { return static_cast<void*>(&g_nothing); },
               .release = [](void*, size_t) {},
               .to_host = [](void*, const void*,
                             size_t) { raise<NotImplementedError>("Cannot copy out of meta tensor; no data!"); },
               .from_host = [](void*, const void*, size_t) {}});
  return type;
}

}  // namespace smolder
