// The tape's lock: taken once an op, nearly always free, and held long only by a sync.
#pragma once

#include <atomic>

/// A thread-local of the library's own, reached without a call. Keep them small and trivial, and what is not in
/// PerThread (core/per_thread.h), which says why.
#if defined(__GNUC__)
#define SMOLDER_THREAD_LOCAL __attribute__((tls_model("initial-exec"))) thread_local constinit
#else
#define SMOLDER_THREAD_LOCAL thread_local constinit
#endif

namespace smolder::lazy {

/// What a thread that waits for a lock lets go of meanwhile (Python's GIL), so that who holds the lock may take it.
/// `let_go` returns what `take_back` is to be given; null where there was nothing to let go of.
struct WaitHooks {
  void* (*let_go)();
  void (*take_back)(void*);
};
void set_wait_hooks(WaitHooks hooks);

/// A mutex whose free path is inline: one atomic exchange to take it, a plain store to release it. A
/// std::mutex costs two calls and two exchanges, half of what recording an op may take. Whoever finds it
/// taken spins a little, then sleeps in short naps (of at most 50 us: a sync holds it for longer).
class Lock {
 public:
  Lock() = default;
  Lock(const Lock&) = delete;
  void lock() {
    if (taken_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      wait();
  }
  bool try_lock() { return !taken_.exchange(true, std::memory_order_acquire); }
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  void wait();
  std::atomic<bool> taken_{false};
};

}  // namespace smolder::lazy
