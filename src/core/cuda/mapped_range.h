// A stretch of a device's memory whose address stays as it grows: addresses are reserved for as much as the device has,
// and memory is mapped behind what there is. Graphs that know its address stay right.
#pragma once

#include <cstddef>
#include <vector>

#include "smolder/core/cuda/api.h"

namespace smolder::cuda {

/// Not thread-safe.
class MappedRange {
 public:
  explicit MappedRange(int device) : device_(device) {}
  MappedRange(const MappedRange&) = delete;
  MappedRange& operator=(const MappedRange&) = delete;

  /// Lets there be at least `bytes`. What there was keeps its address, but on a device that cannot map memory, where it
  /// is lost. False when there is no memory, and then all is as it was, but on such a device.
  bool grow(size_t bytes);
  /// Waits for the device and gives all memory back. The address stays.
  void clear();
  Address address() const { return address_; }
  size_t bytes() const { return bytes_; }

 private:
  bool reserve();
  bool map(size_t bytes);

  const int device_;
  Address address_ = 0;
  size_t bytes_ = 0;            ///< mapped, from the start
  size_t reserved_ = 0;         ///< 0 until asked for, and where memory cannot be mapped
  size_t granule_ = 0;          ///< of what is mapped
  bool maps_ = true;            ///< whether the device can
  std::vector<size_t> mapped_;  ///< sizes of what was mapped, in order
};

}  // namespace smolder::cuda
