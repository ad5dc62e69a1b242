// The memory of plans' intermediates: each device has one stretch, which all plans share. Plans hold offsets into it,
// so that it is as large as the largest plan that has run, and not as all of them together. On CUDA it grows in place.
#pragma once

#include <cstdint>
#include <mutex>

#include "smolder/core/buffer.h"

namespace smolder::jit {

class Arena {
 public:
  static Arena& of(Device device);

  /// At least `bytes` of memory, for as long as the returned lock is held; contents are undefined.
  /// Throws OutOfMemoryError.
  struct Lease {
    std::unique_lock<std::mutex> lock;
    char* base = nullptr;
  };
  Lease reserve(int64_t bytes);
  /// Bytes held now.
  int64_t bytes() const;
  /// Gives it back; the next run takes memory again.
  void release();

 private:
  explicit Arena(Device device) : device_(device) {}
  const Device device_;
  mutable std::mutex mutex_;
  BufferRef block_;  ///< null on CUDA
  char* base_ = nullptr;
  size_t bytes_ = 0;
};

/// Where a run keeps its intermediates: the arena, or, for one that is a part of another, memory of its own, since that
/// has the arena.
class RunMemory {
 public:
  RunMemory(Device device, int64_t bytes, bool nested);
  char* base() const { return base_; }

 private:
  Arena::Lease lease_;
  BufferRef own_;
  char* base_ = nullptr;
};

}  // namespace smolder::jit
