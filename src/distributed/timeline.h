// When collectives ran and who waited for them: for reports.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "smolder/distributed/job.h"

namespace smolder::distributed {

/// A collective that was waited for. Times are those of now_ns().
struct RanCollective {
  std::string what, group;
  uint64_t number = 0;  ///< of the group's collectives; 0: a receive
  size_t bytes = 0;
  SourceToken source = 0;     ///< of what began it
  SourceToken waited_at = 0;  ///< of what waited for it
  int64_t begun_ns = 0;       ///< it was given to the group's thread, or its stream
  int64_t started_ns = 0;     ///< those before it were done
  int64_t ended_ns = 0;       ///< its result was there
  int64_t waited_ns = 0;      ///< the step came to where it needs the result
  int64_t went_on_ns = 0;     ///< and went on
};

/// Keeps what is waited for from now on, up to a bound; or does so no more.
void keep_collectives(bool keep);
bool keeps_collectives();
void note_collective_ran(RanCollective ran);
/// The same for a collective on a device, whose times follow from timed events: the job's, and those of when the
/// device's queue came to what needs the result, and went on.
void note_queued_collective(int device, RanCollective ran, std::shared_ptr<QueuedJob> job,
                            std::unique_ptr<smolder::cuda::Event> waited,
                            std::unique_ptr<smolder::cuda::Event> went_on);
/// Returns the entries kept and forgets them, in the order in which they were waited for. Waits for devices.
std::vector<RanCollective> take_collectives();

}  // namespace smolder::distributed
