#include "smolder/core/cuda/mapped_range.h"

#include "smolder/core/cuda/driver.h"

namespace smolder::cuda {
namespace {

constexpr size_t kUnmappedGranule = 2 << 20;

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

MemoryProperties properties_of(int device) {
  MemoryProperties p{};
  p.type = MemoryProperties::kPinned;
  p.location = {MemoryLocation::kDevice, device};
  return p;
}

}  // namespace

bool MappedRange::reserve() {
  if (reserved_ > 0 || !maps_) return maps_;
  maps_ = device_attribute(device_, DeviceAttribute::kMapsMemory) != 0;
  if (!maps_) return false;
  const MemoryProperties properties = properties_of(device_);
  SMOLDER_CUDA(memory_granularity, &granule_, &properties, 0);
  const size_t bytes = round_up(device_info(device_).memory_bytes, granule_);
  SMOLDER_CUDA(address_reserve, &address_, bytes, 0, 0, 0);
  reserved_ = bytes;
  return true;
}

bool MappedRange::map(size_t bytes) {
  const MemoryProperties properties = properties_of(device_);
  MemoryHandle handle = 0;
  const Status made = driver().memory_create(&handle, bytes, &properties, 0);
  if (made == kOutOfMemory) return false;
  check(made, "memory_create");
  const Address at = address_ + bytes_;
  const Status mapped = driver().memory_map(at, bytes, 0, handle, 0);
  driver().memory_release(handle);  // it lives as long as it is mapped
  check(mapped, "memory_map");
  const MemoryAccess access{properties.location, MemoryAccess::kReadWrite};
  const Status allowed = driver().memory_set_access(at, bytes, &access, 1);
  if (allowed != 0) driver().memory_unmap(at, bytes);
  check(allowed, "memory_set_access");
  mapped_.push_back(bytes);
  bytes_ += bytes;
  return true;
}

bool MappedRange::grow(size_t bytes) {
  if (bytes <= bytes_) return true;
  make_current(device_);
  if (reserve()) {
    const size_t all = round_up(bytes, granule_);
    return all <= reserved_ && map(all - bytes_);
  }
  clear();
  const size_t all = round_up(bytes, kUnmappedGranule);
  const Status status = driver().allocate(&address_, all);
  if (status == kOutOfMemory) return false;
  check(status, "allocate");
  bytes_ = all;
  return true;
}

void MappedRange::clear() {
  if (bytes_ == 0) return;
  synchronize(device_);
  if (!maps_) {
    driver().release(address_);
    address_ = 0;
  }
  Address at = address_;
  for (const size_t bytes : mapped_) {
    driver().memory_unmap(at, bytes);
    at += bytes;
  }
  mapped_.clear();
  bytes_ = 0;
}

}  // namespace smolder::cuda
