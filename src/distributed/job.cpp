#include "smolder/distributed/job.h"

#include <utility>

#include "smolder/core/background.h"

namespace smolder::distributed {

Worker::~Worker() {
  {
    const std::lock_guard hold(lock_);
    ends_ = true;
  }
  more_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Worker::add(std::function<void()> job) {
  const std::lock_guard hold(lock_);
  jobs_.push_back(std::move(job));
  if (!thread_.joinable()) {
    const SignalsBlocked quiet;
    thread_ = std::thread([this] { work(); });
  }
  more_.notify_one();
}

void Worker::work() {
  for (;;) {
    std::function<void()> job;
    {
      std::unique_lock hold(lock_);
      more_.wait(hold, [this] { return ends_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace smolder::distributed
