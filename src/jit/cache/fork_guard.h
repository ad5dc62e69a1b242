// Objects that must be told about fork(): SQLite handles, threads and locks do not survive it.
#pragma once

namespace smolder::jit {

/// before_fork() runs in the forking thread and must leave every lock of the object held, so that the
/// child finds it whole; the other two release them. Guards are visited newest first before the fork,
/// oldest first after it.
class ForkGuard {
 public:
  ForkGuard() = default;
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

 protected:
  ~ForkGuard() = default;
  /// Called last in the derived constructor.
  void watch_forks();
  /// Called first in the derived destructor; waits for a fork under way.
  void forget_forks() noexcept;

 private:
  friend struct ForkHandlers;
  virtual void before_fork() = 0;
  virtual void after_fork_in_parent() = 0;
  virtual void after_fork_in_child() = 0;
};

}  // namespace smolder::jit
