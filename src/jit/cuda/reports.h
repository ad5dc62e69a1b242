// Reports of kernels while the host is ahead of them: indices out of range, by op, and which steps had none.
//
// A step that looks at indices ends with a launch that counts it, unless one was out of range. From then on, until the
// host has taken the report, no step is counted, none reports, and kernels that overwrite leaves in such steps do
// nothing: so the count says which step it was that failed, and that one and those behind it have changed nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "smolder/core/buffer.h"
#include "smolder/core/cuda/driver.h"
#include "smolder/jit/plan.h"

namespace smolder::jit::cuda {

/// A slot, in words of 32 bits: the index, its bound and one, and the address of `StepGate::failed`.
inline constexpr int kReportWords = 8;

/// The slots of an instance, in memory of the host that its kernels write: nothing is copied, and nobody waits.
class ErrorSlots {
 public:
  ErrorSlots(int device, std::vector<OpSite> sites);
  int device() const { return device_; }
  uint32_t* slot(size_t i) const { return reinterpret_cast<uint32_t*>(data() + i); }
  size_t size() const { return sites_.size(); }
  bool any() const;  ///< Is one set?
  /// Adds what slots that are set say, and clears those. The device is idle.
  void take(std::vector<IndexReport>& reports);

 private:
  struct Slot {
    uint64_t index, bound_and_one, failed, unused;
  };
  static_assert(sizeof(Slot) == kReportWords * sizeof(uint32_t));
  Slot* data() const { return static_cast<Slot*>(memory_.data()); }
  bool is_set(size_t i) const;

  int device_;
  smolder::cuda::PinnedMemory memory_;
  std::vector<OpSite> sites_;
};

/// Whether a step of a device has failed, and how many have passed. Used by one run at a time.
class StepGate {
 public:
  /// Never destroyed.
  static StepGate& of(int device);
  static StepGate* existing(int device) noexcept;

  /// On the device: other than 0 once a step has failed. And a word that is always 0, for what is to run all the same.
  const uint32_t* failed() const { return static_cast<const uint32_t*>(memory_->data()); }
  const uint32_t* never() const { return failed() + 1; }
  /// Queues the launch that counts a step.
  void queue_count() const;
  /// A step with such a launch was queued. Returns its ticket.
  uint64_t give() { return ++given_; }
  uint64_t passed() const;
  /// Queues that a step has failed, as the host found.
  void fail() const;
  /// The host knows of the failure, and the device is idle.
  void reset();

 private:
  explicit StepGate(int device);

  const int device_;
  BufferRef memory_;                   ///< both words, and the count
  smolder::cuda::PinnedMemory count_;  ///< the same for the host
  uint64_t given_ = 0;
};

/// Kernels that may write `slots` were queued.
void watch(const std::shared_ptr<ErrorSlots>& slots);
/// Reports of a device since the last call; waits for it where it reported. `idle`: it has done all that it was given.
std::vector<IndexReport> take_reports(int device, bool idle);

}  // namespace smolder::jit::cuda
