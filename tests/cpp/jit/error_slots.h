// Arguments of kernels on a device that look at indices.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "smolder/jit/cuda/reports.h"

namespace smolder::jit::test {

/// Slots of the checks of a kernel. Each has a word of its own that says that a step has failed, so that each tells
/// what it finds.
class ErrorSlots {
 public:
  /// A guarded kernel finds in the first, of which there is always one, that no step has failed.
  explicit ErrorSlots(int count) : count_(static_cast<size_t>(count)), words_(std::max(count_, size_t{1}) * kWords) {
    place(words_.data());
  }
  /// They are to be at this address.
  void place(const void* address) {
    for (size_t i = 0; i < words_.size(); i += kWords) {
      words_[i + 2] = reinterpret_cast<uint64_t>(address) + (i + 3) * sizeof(uint64_t);
    }
  }
  uint32_t* data() { return reinterpret_cast<uint32_t*>(words_.data()); }
  std::vector<uint64_t>& words() { return words_; }
  /// By check: whether an index was out of range, as the interpreter says it.
  std::vector<uint32_t> found() const {
    std::vector<uint32_t> all;
    for (size_t i = 0; i < count_; ++i) all.push_back(words_[i * kWords + 1] != 0);
    return all;
  }

 private:
  static constexpr size_t kWords = cuda::kReportWords / 2;
  size_t count_;
  std::vector<uint64_t> words_;
};

}  // namespace smolder::jit::test
