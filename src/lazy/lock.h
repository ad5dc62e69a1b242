// The tape's lock: taken once an op, nearly always free, and held long only by a sync.
#pragma once

#include <atomic>
#include <cstdint>

/// A thread-local of the library's own, reached without a call. Keep them small and trivial, and what is not in
/// PerThread (core/per_thread.h), which says why.
#if defined(__GNUC__)
#define SMOLDER_THREAD_LOCAL __attribute__((tls_model("initial-exec"))) thread_local constinit
#else
#define SMOLDER_THREAD_LOCAL thread_local constinit
#endif

namespace smolder::lazy {

/// Lets go of what a waiting thread holds (Python's GIL) meanwhile, so that who holds the lock may take it.
/// `let_go` returns what `take_back` is to be given; null where there was nothing to let go of.
struct WaitHooks {
  void* (*let_go)();
  void (*take_back)(void*);
};
void set_wait_hooks(WaitHooks hooks);

/// A mutex whose free path is inline: one atomic exchange to take it, a plain store to release it. A
/// std::mutex costs two calls and two exchanges, half of what recording an op may take. Whoever finds it
/// taken spins a little, then sleeps in short naps (of at most 50 us: a sync holds it for longer).
///
/// A thread that holds it may reserve it: from then on others wait even while it is free, as what they record would
/// come between what the thread records. They do not wait for ever, as the thread may wait for them: after a second
/// the reservation is lost, and its owner is told.
class Lock {
 public:
  Lock() = default;
  Lock(const Lock&) = delete;
  void lock() {
    if (const State before = state_.exchange(kTaken, std::memory_order_acquire); before != kFree) [[unlikely]]
      wait(before);
  }
  void unlock() {
    state_.store(reserved_.load(std::memory_order_relaxed) ? kReserved : kFree, std::memory_order_release);
  }

  /// For the holder. `lost` is set when another thread takes the lock nevertheless, and must live until release().
  /// Returns false, having done nothing, where it is reserved.
  bool reserve(std::atomic<bool>* lost);
  /// For the thread that reserved it, whether it holds it or not.
  void release();

 private:
  enum State : uint8_t { kFree, kTaken, kReserved };
  void wait(State before);
  bool is_mine(State before);
  std::atomic<State> state_{kFree};
  std::atomic<bool> reserved_{false};
  std::atomic<const void*> owner_{nullptr};  ///< something of the thread that reserved it
  std::atomic<bool>* lost_ = nullptr;
};

}  // namespace smolder::lazy
