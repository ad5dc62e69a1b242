#include "smolder/jit/arena.h"

#include <algorithm>

#include "smolder/core/cuda/memory.h"
#include "smolder/core/cuda/queue.h"
#include "smolder/core/error.h"
#include "smolder/core/memory_history.h"

namespace smolder::jit {

namespace {

constexpr size_t kLarge = 16 << 20;

}  // namespace

Arena& Arena::of(DeviceType device) {
  // Never destroyed: a plan may run while the process exits.
  static auto* const cpu = new Arena(DeviceType::kCPU);
  static auto* const cuda = new Arena(DeviceType::kCUDA);
  SMOLDER_INVARIANT(device == DeviceType::kCPU || device == DeviceType::kCUDA);
  return device == DeviceType::kCPU ? *cpu : *cuda;
}

Arena::Lease Arena::reserve(int64_t bytes) {
  Lease lease{std::unique_lock(mutex_)};
  const size_t wanted = static_cast<size_t>(std::max<int64_t>(bytes, 0));
  if (wanted > 0 && (!block_ || block_->bytes() < wanted)) {
    // Nothing in the old block outlives a run, and both together might not fit. No tensor is likely to want as much on
    // CUDA, where the pool would keep it.
    const bool is_large = block_ && block_->bytes() >= kLarge;
    block_.reset();
    if (is_large && device_ == DeviceType::kCUDA) cuda::empty_cache(cuda::kDevice);
    const MemoryFor use("arena of plans", 0);
    block_ = allocate(wanted, {device_, 0});
  }
  lease.base = block_ ? static_cast<char*>(block_->data()) : nullptr;
  return lease;
}

RunMemory::RunMemory(DeviceType device, int64_t bytes, bool nested) {
  if (!nested) {
    lease_ = Arena::of(device).reserve(bytes);
    base_ = lease_.base;
  } else if (bytes > 0) {
    own_ = allocate(static_cast<size_t>(bytes), {device, 0});
    base_ = static_cast<char*>(own_->data());
  }
}

int64_t Arena::bytes() const {
  const std::lock_guard lock(mutex_);
  return block_ ? static_cast<int64_t>(block_->bytes()) : 0;
}

void Arena::release() {
  const std::lock_guard lock(mutex_);
  block_.reset();
}

}  // namespace smolder::jit
