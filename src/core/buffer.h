// Reference-counted memory and the allocator behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "smolder/core/device.h"

namespace smolder {

/// Alignment of every allocation, in bytes: a cache line, and the widest vector.
inline constexpr size_t kAlignment = 64;

/// A block of memory. Shared by handles, plans and exported views through `BufferRef`; freed blocks
/// go back to a caching pool because fresh pages cost more than the arithmetic on them.
class Buffer {
 public:
  /// Gives `data` back to whoever made it; runs once, on the thread that drops the last reference.
  /// A plain function and one word, so that a pooled buffer costs one small allocation.
  using ReleaseFn = void (*)(void* data, void* context) noexcept;

  Buffer(void* data, size_t bytes, Device device, ReleaseFn release, void* context)
      : data_(data), bytes_(bytes), release_(release), context_(context), device_(device) {}
  ~Buffer() {
    if (release_) release_(data_, context_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return data_; }
  /// Bytes asked for; the block may be larger.
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

 private:
  void* data_;
  size_t bytes_;
  ReleaseFn release_;
  void* context_;
  Device device_;
};
using BufferRef = std::shared_ptr<Buffer>;

/// Takes `bytes` of uninitialised CPU memory from the caching pool. On failure empties the cache and
/// tries again, then throws OutOfMemoryError with the size asked for and what is in use. Zero bytes
/// give a valid pointer on the CPU. CUDA gives memory in the order of its queue (cuda/memory.h), devices of users what
/// theirs give. Thread-safe; a forked child may use the CPU's.
BufferRef allocate(size_t bytes, Device device = {});
/// Wraps memory owned by somebody else; `release` (may be empty) runs when the last reference goes
/// and must not throw.
BufferRef wrap_foreign(void* data, size_t bytes, Device device, std::function<void()> release);
/// Gives cached free blocks back to the system.
void empty_cache();

/// Bytes of the blocks behind live buffers, their peak, and bytes held free in the pool. Foreign memory
/// is not counted. The pool keeps at most the larger of 256 MiB and the highest `live` ever seen.
struct MemoryStats {
  int64_t live = 0, peak = 0, cached = 0;
};
MemoryStats memory_stats();
void reset_peak_memory();

/// Test hook: the `n`th allocation from now throws OutOfMemoryError, once (1 is the next, 0 turns it off).
void fail_allocation_after(int64_t n);
/// Allocators of devices call this first: it throws when that allocation is to fail.
void fail_if_asked(size_t bytes, Device device);

}  // namespace smolder
