#include "smolder/jit/run/arena.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "smolder/core/cuda/memory.h"
#include "smolder/core/error.h"
#include "smolder/core/memory_history.h"

namespace smolder::jit {

Arena& Arena::of(Device device) {
  SMOLDER_INVARIANT(device == DeviceType::kCPU || device == DeviceType::kCUDA);
  static std::array<std::atomic<Arena*>, kMaxDevices> all{};
  std::atomic<Arena*>& place = all[number_of(device)];
  if (Arena* const known = place.load(std::memory_order_acquire)) return *known;
  auto* const made = new Arena(device);  // never destroyed: a plan may run while the process exits
  Arena* other = nullptr;
  if (place.compare_exchange_strong(other, made, std::memory_order_acq_rel)) return *made;
  delete made;
  return *other;
}

Arena::Lease Arena::reserve(int64_t bytes) {
  Lease lease{std::unique_lock(mutex_)};
  const size_t wanted = static_cast<size_t>(std::max<int64_t>(bytes, 0));
  if (wanted > bytes_) {
    const MemoryFor use("arena of plans", 0);
    base_ = nullptr;
    bytes_ = 0;
    if (device_ == DeviceType::kCUDA) {
      base_ = static_cast<char*>(cuda::memory_of_plans(wanted, device_.index));
    } else {
      block_.reset();  // nothing in it outlives a run, and both together might not fit
      block_ = allocate(wanted, device_);
      base_ = static_cast<char*>(block_->data());
    }
    bytes_ = wanted;
  }
  lease.base = base_;
  return lease;
}

RunMemory::RunMemory(Device device, int64_t bytes, bool nested) {
  if (!nested) {
    lease_ = Arena::of(device).reserve(bytes);
    base_ = lease_.base;
  } else if (bytes > 0) {
    own_ = allocate(static_cast<size_t>(bytes), device);
    base_ = static_cast<char*>(own_->data());
  }
}

int64_t Arena::bytes() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(bytes_);
}

void Arena::release() {
  const std::lock_guard lock(mutex_);
  if (device_ == DeviceType::kCUDA) cuda::clear_memory_of_plans(device_.index);
  block_.reset();
  base_ = nullptr;
  bytes_ = 0;
}

}  // namespace smolder::jit
