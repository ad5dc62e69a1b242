// The store of profiles: private to the profile.
#pragma once

#include <deque>

#include "smolder/core/fork.h"
#include "smolder/core/profile.h"

namespace smolder {

/// All that is kept. `lock` guards every member. Never destroyed: threads may outlive any static.
struct ProfileStore {
  ForkMutex lock;
  std::deque<Span> spans;
  std::deque<MemoryChange> changes;
  int64_t dropped = 0;
  int sessions = 0, with_shapes = 0, with_memory = 0, with_devices = 0, with_flops = 0;

  static ProfileStore& get();
  /// Says, under the lock, what sessions want from now on.
  void set_flags();
};

}  // namespace smolder
