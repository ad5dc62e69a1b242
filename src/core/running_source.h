// The user's line whose kernel runs: for kernels that tell others so.
#pragma once

#include "smolder/core/source_line.h"

namespace smolder {

/// Where the kernel that this thread runs between a plan's own was recorded; 0 outside of them.
SourceToken running_source();

class RunningSource {
 public:
  explicit RunningSource(SourceToken source);
  ~RunningSource();
  RunningSource(const RunningSource&) = delete;

 private:
  SourceToken outer_;
};

}  // namespace smolder
