// Threads record into one step: which of its ops each recorded, and the errors that a thread has still to hear.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <vector>

#include "smolder/lazy/lock.h"

namespace smolder::lazy {

/// All is read and written under the tape's lock.
class Turns {
 public:
  /// A thread: whether it has ended.
  using Thread = std::shared_ptr<const std::atomic<bool>>;
  static const Thread& this_thread();

  /// The calling thread is about to record op `position`.
  void note(size_t position) {
    if (last_ != current_ || !last_) [[unlikely]]
      take(position);
  }
  /// Whether several threads recorded the step.
  bool mixed() const { return turns_.size() > 1; }
  /// Whether one thread recorded it that is not the calling one, and has not ended.
  bool of_another() const { return turns_.size() == 1 && turns_[0].thread != this_thread() && !*turns_[0].thread; }
  /// Who recorded op `position`.
  const Thread& recorder(size_t position) const;
  /// The step has ended.
  void clear();

  /// `thread` is told when it records or reads next; if it ends before, whoever does so next is told.
  void tell_later(Thread thread, std::exception_ptr error) {
    unheard_.push_back({std::move(thread), std::move(error)});
  }
  bool any_unheard() const { return !unheard_.empty(); }
  struct Unheard {
    Thread thread;
    std::exception_ptr error;
  };
  /// The error that the calling thread has to hear of; none if there is nothing.
  Unheard hear();

 private:
  void take(size_t position);

  inline static SMOLDER_THREAD_LOCAL const void* current_ = nullptr;  ///< null until the thread records
  struct Turn {
    size_t begin;
    Thread thread;
  };
  const void* last_ = nullptr;
  std::vector<Turn> turns_;
  std::vector<Unheard> unheard_;
};

}  // namespace smolder::lazy
