// Threads of ours beside the pool's: for work that nobody waits for.
#pragma once

#include <signal.h>

#include <functional>
#include <thread>

namespace smolder {

/// While it lives, threads that are started take no signals: handlers belong to the threads that the application made.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

/// Starts a thread that gives way to others: it takes no signals, has a lower priority, and its parallel_for runs
/// inline, so that the program keeps the pool. Throws std::system_error where there is no thread to be had.
std::thread start_background_thread(std::function<void()> work);
/// Is this such a thread?
bool in_background();

}  // namespace smolder
