// What kernels report while the host is ahead of them: indices out of range, by op.
#pragma once

#include <memory>
#include <vector>

#include "smolder/core/cuda/driver.h"
#include "smolder/jit/plan.h"

namespace smolder::jit::cuda {

/// The error words of an instance, in memory of the host that its kernels write: nothing is copied, and nobody waits.
class ErrorWords {
 public:
  ErrorWords(int device, std::vector<OpSite> sites);
  int device() const { return device_; }
  uint32_t* data() const { return static_cast<uint32_t*>(memory_.data()); }
  bool any() const;  ///< Is one set?
  /// Adds the sites whose words are set, and clears those. The device is idle.
  void take(std::vector<OpSite>& reports);

 private:
  bool is_set(size_t i) const;

  int device_;
  smolder::cuda::PinnedMemory memory_;
  std::vector<OpSite> sites_;
};

/// Kernels that may write `words` were queued.
void watch(const std::shared_ptr<ErrorWords>& words);
/// What a device reported since it was asked last; waits for it when it did. `idle`: it has done all that it was given.
std::vector<OpSite> take_reports(int device, bool idle);

}  // namespace smolder::jit::cuda
