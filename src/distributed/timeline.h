// When collectives ran and who waited for them: for reports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "smolder/distributed/job.h"

namespace smolder::distributed {

/// A collective that was waited for. Times are those of now_ns().
struct RanCollective {
  std::string what, group;
  uint64_t number;  ///< of the group's collectives; 0: a receive
  size_t bytes;
  SourceToken source;     ///< of what began it
  SourceToken waited_at;  ///< of what waited for it
  int64_t begun_ns;       ///< it was given to the group's thread
  int64_t started_ns;     ///< those before it were done
  int64_t ended_ns;       ///< its result was there
  int64_t waited_ns;      ///< the step came to where it needs the result
  int64_t went_on_ns;     ///< and went on
};

/// Keeps what is waited for from now on, up to a bound; or does so no more.
void keep_collectives(bool keep);
bool keeps_collectives();
void note_collective_ran(RanCollective ran);
/// What was kept, which is forgotten, in the order in which it was waited for.
std::vector<RanCollective> take_collectives();

}  // namespace smolder::distributed
