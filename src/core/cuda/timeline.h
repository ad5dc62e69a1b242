// When work of a device ran, for the profile: events around it, which are read later, so that nothing waits.
#pragma once

#include <memory>
#include <vector>

#include "smolder/core/cuda/driver.h"
#include "smolder/core/profile.h"

namespace smolder::cuda {

/// Spans of what is queued on a stream while it lives. Does nothing unless devices are profiled when it begins.
class TimedWork {
 public:
  /// `describe` is asked for the spans, but for their times, when somebody profiles. Several are of what runs side by
  /// side: each gets a part of the time, as it has of the bytes.
  TimedWork(Stream& stream, auto&& describe) {
    if (profiles_devices()) [[unlikely]]
      begin(stream, describe());
  }
  ~TimedWork() {
    if (work_) [[unlikely]]
      end();
  }
  TimedWork(const TimedWork&) = delete;
  TimedWork& operator=(const TimedWork&) = delete;

  struct Work;

 private:
  void begin(Stream& stream, std::vector<Span> spans);
  void end() noexcept;
  Work* work_ = nullptr;
};

/// Adds the spans of work that is done to the profile; `wait`: of all that was queued.
void settle_timeline(bool wait);
/// When a timed event was that is done, of the stream's device, by the clock of now_ns().
int64_t host_time(Stream& stream, const Event& event);
/// Lets go of what is still to be read: nobody profiles any more.
void forget_timeline();

}  // namespace smolder::cuda
