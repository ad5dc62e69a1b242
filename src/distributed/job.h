// Collectives that were begun, and threads that do them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "smolder/core/buffer.h"
#include "smolder/core/cuda/driver.h"
#include "smolder/core/source_line.h"

namespace smolder::distributed {

/// Runs jobs in order on a thread that is started for the first.
class Worker {
 public:
  ~Worker();
  void add(std::function<void()> job);

 private:
  void work();
  std::mutex lock_;
  std::condition_variable more_;
  std::deque<std::function<void()>> jobs_;
  bool ends_ = false;
  std::thread thread_;
};

/// A collective, beside its name. `root` -1: each rank waits for all. Else `root_waits` says whether the root
/// waits for all, and the others for nobody; or the others for the root, which waits for nobody.
struct About {
  int root = -1;
  bool root_waits = false;
  size_t bytes = 0;  ///< that this rank holds or gets, whichever is more
};

/// A collective that was begun. Its worker sets what comes after `turn`.
struct Job {
  uint64_t number = 0;     ///< of the group's collectives, from 1 on; 0: a transfer
  std::string what;        ///< "all_reduce(SUM) of float32[3, 4]": equal on all ranks, or they do not meet
  SourceToken source = 0;  ///< the user's line
  About about;
  int from = -1;  ///< of a receive: the rank, and as Waiting has them
  uint64_t slot = 0, turn = 0;
  std::mutex lock;
  std::condition_variable ended;
  bool done = false;
  std::exception_ptr error;
  int64_t begun_ns = 0, started_ns = 0, ended_ns = 0;  ///< of now_ns()
  std::string result;                                  ///< bytes, where the job keeps its own
  int sender = -1;                                     ///< of what was received
};

/// One that a device does. `queued` and `kept` under the job's lock.
struct QueuedJob : Job {
  bool queued = false;  ///< `end` was recorded, or `error` says why nothing was
  std::unique_ptr<smolder::cuda::Event> end;
  /// Where collectives are kept for reports, which `end` is timed for, too: it was given to the group's stream, and
  /// what was before it there was done.
  std::unique_ptr<smolder::cuda::Event> begun, started;
  std::vector<BufferRef> kept;  ///< memory that it uses, until it is done
};

}  // namespace smolder::distributed
