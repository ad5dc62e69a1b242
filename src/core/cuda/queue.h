// What a device has one of: the stream that all its work is queued on, and the ring through which numbers of the host
// reach it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "smolder/core/cuda/driver.h"

namespace smolder::cuda {

/// All work of a device is queued here, in program order, so memory that is freed may be given out again at once.
class Queue {
 public:
  /// Throws RuntimeError when there is no such device. Never destroyed.
  static Queue& of(int device);
  /// The same, but null unless the device was used.
  static Queue* existing(int device) noexcept;

  Stream& stream() { return stream_; }
  int device() const { return stream_.device(); }

  /// Queues a copy of `bytes` from the host, which are read before this returns, and says where on the device they will
  /// be. They stay there for work that is queued before `kRingBytes` more were uploaded. At most that many at once.
  void* upload(const void* from, size_t bytes);
  static constexpr size_t kRingBytes = 1 << 20;

 private:
  explicit Queue(int device);
  Stream stream_;
  std::mutex mutex_;
  PinnedMemory host_;
  DeviceMemory ring_;
  size_t at_ = 0;
};

}  // namespace smolder::cuda
