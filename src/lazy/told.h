// Memory whose address was told, and the one storage that was told it. Values are shared by copies of tensors until one
// of them is written, but an address tells storages apart and may be written through.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <unordered_map>

#include "smolder/core/buffer.h"

namespace smolder::lazy {

class TensorImpl;

/// Belongs to a tape, and is read and written under its lock.
class Told {
 public:
  /// Whether `owner` is, or now becomes, the storage that is told where `memory` is.
  bool is_of(const BufferRef& memory, const TensorImpl* owner) {
    if (all_.size() >= clean_at_) {
      std::erase_if(all_, [](const auto& entry) { return entry.second.memory.expired(); });
      clean_at_ = std::max<size_t>(2 * all_.size(), 64);
    }
    Entry& entry = all_[memory.get()];
    if (entry.memory.expired()) entry = {memory, owner};
    return entry.owner == owner;
  }

 private:
  struct Entry {
    std::weak_ptr<Buffer> memory;
    const TensorImpl* owner = nullptr;
  };
  std::unordered_map<const Buffer*, Entry> all_;
  size_t clean_at_ = 64;
};

}  // namespace smolder::lazy
