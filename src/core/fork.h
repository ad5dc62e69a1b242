// The one owner of what a fork means for this library. Threads do not survive it, and a lock that one of them holds is
// held for ever in the child: so all locks are taken before, in one order, and given back on both sides.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace smolder {

/// The order in which locks are taken, outermost first: who holds one takes none of an earlier rank. After these come
/// all `ForkMutex`es, in any order.
enum class ForkRank : uint8_t {
  kTape,      ///< of one object, that is never destroyed
  kCompiler,  ///< of plans that are compiled behind the program, which stops for a fork
  kKernels,   ///< the kernel cache's, in memory
  kDatabase,  ///< and on disk
  kNoLock,    ///< what takes none, as it is only told
};

/// Listeners that must be told about fork(): SQLite handles, threads and locks do not survive it.
/// before_fork() runs in the forking thread and must leave every lock of the object held, so that the
/// child finds it whole; the other two release them. Of one rank, those made last are told first, before the fork.
class ForkGuard {
 public:
  explicit ForkGuard(ForkRank rank) : rank_(rank) {}
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

 protected:
  ~ForkGuard() = default;
  /// Called last in the derived constructor, under no lock but a tape's.
  void watch_forks();
  /// Called first in the derived destructor; waits for a fork under way. Under no lock but a tape's.
  void forget_forks() noexcept;

 private:
  friend struct ForkHandlers;
  virtual void before_fork() = 0;
  virtual void after_fork_in_parent() = 0;
  virtual void after_fork_in_child() = 0;
  const ForkRank rank_;
};

/// A mutex that a forked child finds free, and what it guards whole. For short work: who holds it waits for nothing but
/// other ForkMutexes, neither for the GIL nor for a device. A thread that holds none waits for a fork under way, so
/// that the fork takes all of them however busy the threads are. Made and destroyed while none is held: a static is one
/// of a file, not of a function that may be called under another.
class ForkMutex {
 public:
  ForkMutex();
  ~ForkMutex();
  ForkMutex(const ForkMutex&) = delete;
  void lock() {
    if (held_ == 0 && forking_.load(std::memory_order_relaxed)) wait_for_fork();
    mutex_.lock();
    ++held_;
  }
  bool try_lock() {
    const bool taken = mutex_.try_lock();
    held_ += taken;
    return taken;
  }
  void unlock() {
    --held_;
    mutex_.unlock();
  }

 private:
  friend struct ForkHandlers;
  static void wait_for_fork();
  static std::atomic<bool> forking_;        ///< whether a fork takes all, or has them
  static constinit thread_local int held_;  ///< by this thread
  std::mutex mutex_;
  ForkMutex *next_ = nullptr, *before_ = nullptr;  ///< in the list of all
};

}  // namespace smolder
