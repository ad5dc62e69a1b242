// Work that may take long is done without the GIL, and still knows the user's line; what calls Python takes it.
#pragma once

#include "smolder/core/source_line.h"
#include "src/casters.h"

namespace smolder::python {

/// Takes the GIL back. A thread that comes when the interpreter is going away stays here until the process ends: Python
/// would end it by unwinding frames of ours that do not expect that, which ends the process.
void take_gil_back(PyThreadState* state);

/// Holds the GIL for its lifetime, on any thread, with the same care.
class WithGil {
 public:
  WithGil();
  ~WithGil();
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  PyGILState_STATE state_;
};

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
