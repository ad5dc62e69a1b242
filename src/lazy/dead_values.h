// Values whose last reference went, on their way back to the tape that made them.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "smolder/lazy/value.h"

namespace smolder::lazy {

/// Where one thread leaves dead values of one device: a ring of one writer, and of one reader, who holds the tape's
/// lock. So handing a value over takes no atomic exchange, which would be a sixth of what recording an op may take.
class DeadRing {
 public:
  /// False when it is full.
  bool push(Value* v) noexcept {
    const uint32_t end = end_.load(std::memory_order_relaxed);
    if (end - begin_.load(std::memory_order_acquire) == kSize) return false;
    slots_[end % kSize] = v;
    end_.store(end + 1, std::memory_order_release);
    return true;
  }
  bool empty() const { return begin_.load(std::memory_order_relaxed) == end_.load(std::memory_order_acquire); }
  void take(auto&& f) {
    const uint32_t end = end_.load(std::memory_order_acquire);
    for (uint32_t i = begin_.load(std::memory_order_relaxed); i != end; ++i) f(slots_[i % kSize]);
    begin_.store(end, std::memory_order_release);
  }

  std::atomic<bool> owned{true};  ///< by a thread that lives
  DeadRing* next = nullptr;       ///< in the list of the device's, which only grows

 private:
  static constexpr uint32_t kSize = 64;  // twice what is recorded between two looks
  std::atomic<uint32_t> end_{0};
  Value* slots_[kSize];
  alignas(64) std::atomic<uint32_t> begin_{0};
};

/// All that is dead of one device.
class DeadValues {
 public:
  static DeadValues& of(Device device);

  /// Those of rings that are full, and of threads that are ending.
  void push(Value* v) noexcept;
  /// A ring for the calling thread; null when there is no memory for it.
  DeadRing* claim_ring() noexcept;

  bool empty() const {
    bool none = !stack_.load(std::memory_order_relaxed);
    for (const DeadRing* r = first(); r; r = r->next) none &= r->empty();
    return none;
  }
  /// Calls f with each. Its caller holds the tape's lock.
  void take(auto&& f) {
    for (DeadRing* r = first(); r; r = r->next) r->take(f);
    Value* v = stack_.exchange(nullptr, std::memory_order_acquire);
    while (v) f(std::exchange(v, v->next_free));
  }

 private:
  DeadRing* first() const { return rings_.load(std::memory_order_acquire); }
  std::atomic<Value*> stack_{nullptr};
  std::atomic<DeadRing*> rings_{nullptr};
};

}  // namespace smolder::lazy
