// See call_errors.cpp.
#pragma once

#include <nanobind/nanobind.h>

namespace smolder::python {

/// From now on, calls with an object of this class ask it first. The class lives as long as the process.
void ask_class(PyTypeObject* type);
/// Whether a mode answers calls before anything else.
bool modes_are_on();

}  // namespace smolder::python
