#include "smolder/jit/arena.h"

#include <algorithm>

namespace smolder::jit {

Arena& Arena::global() {
  static Arena* arena = new Arena;  // never destroyed: a plan may run while the process exits
  return *arena;
}

Arena::Lease Arena::reserve(int64_t bytes) {
  Lease lease{std::unique_lock(mutex_)};
  const size_t wanted = static_cast<size_t>(std::max<int64_t>(bytes, 0));
  if (wanted > 0 && (!block_ || block_->bytes() < wanted)) {
    // Nothing in the old block outlives a run, and both together might not fit.
    block_.reset();
    block_ = allocate(wanted);
  }
  lease.base = block_ ? static_cast<char*>(block_->data()) : nullptr;
  return lease;
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
