// Plans that are compiled behind the program, one after the other, by one thread, in the order of what they save.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "smolder/lazy/trace.h"

namespace smolder::lazy {

/// The way of a step whose plan is not compiled.
enum class Compiling : uint8_t {
  kWait,    ///< it waits for the compiler
  kBehind,  ///< it runs op by op where it can, and its plan is compiled meanwhile
};
/// The mode that was set, else what SMOLDER_COMPILE says, else kBehind.
Compiling compiling();
void set_compiling(Compiling how);

/// A plan that steps of one structure wait for. Who waits for it holds it; what nobody holds is not compiled.
class PlanJob {
 public:
  enum State : uint8_t {
    kWaiting,
    kCompiling,
    kReady,    ///< `plan` and `instance` are there
    kFailed,   ///< `error` says why; it would fail again
    kDropped,  ///< there was no room for it, or the process was forked
  };
  State state() const { return state_.load(std::memory_order_acquire); }
  /// Do steps run without it, for now or for good?
  bool is_to_come() const { return state() < kReady || state() == kFailed; }

  // The request. Not changed once it is submitted.
  Trace trace;
  std::vector<uint32_t> produced;
  std::vector<int64_t> symbols;
  jit::CompileOptions options;
  bool constant_sizes = false;
  std::string disabled;  ///< jit::disabled_names()

  // The outcome, once `state` says so. `plan` may be there before, without all of its kernels.
  std::shared_ptr<const jit::Plan> plan;
  std::shared_ptr<const jit::Instance> instance;
  std::string error;
  double milliseconds = 0;
  bool told = false;  ///< of the error, by who waits for it

 private:
  friend class PlanQueue;
  void compile();
  std::atomic<State> state_{kWaiting};

  // Under the queue's lock.
  std::chrono::steady_clock::time_point submitted_;
  int64_t came_ = 0;      ///< steps that it would have run
  int64_t spent_ns_ = 0;  ///< by those, op by op
  bool guessed_ = false;  ///< it was compiled though its step had come once
};

/// Thread-safe. Of jobs that are waiting, one whose step came again is compiled before one whose step came once, and of
/// these one whose steps took longer op by op. Steps that came once mostly never come again in some programs, as where
/// each has a length of its own; so of those that were compiled all the same at most a few may be unused, after which
/// the queue waits until a step comes again.
class PlanQueue {
 public:
  static PlanQueue& get();

  /// False where there can be no thread.
  bool submit(std::shared_ptr<PlanJob> job);
  /// A step that waits for it ran op by op, which took so long.
  void note_run(PlanJob& job, int64_t ns);
  /// Its plan is used.
  void note_taken(PlanJob& job);
  /// Returns when nothing waits that somebody holds. Throws what check_interrupt() throws.
  void wait();
  /// Ends the thread after the kernel at hand: called before the process ends. Nothing is compiled from then on.
  void finish();

 private:
  struct Shared;
  class OverForks;
  PlanQueue();
  static void work(const std::shared_ptr<Shared>& shared);
  static void checkpoint();
  std::shared_ptr<Shared> shared_;  ///< also held by the thread, which may outlive the process's `exit`
};

}  // namespace smolder::lazy

namespace smolder {

/// Returns when all plans are compiled that are compiled behind the program: steps that ran op by op meanwhile run as
/// plans from now on.
void wait_for_compiles();

}  // namespace smolder
