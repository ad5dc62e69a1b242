// Work that may take long is done without the GIL, and still knows the user's line.
#pragma once

#include "smolder/core/source_line.h"
#include "src/casters.h"

namespace smolder::python {

/// Releases the GIL for its lifetime; sources captured meanwhile are the line it was made on.
class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  SourceToken before_;
  PyThreadState* state_;
};

}  // namespace smolder::python
