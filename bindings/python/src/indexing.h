// See indexing.cpp.
#pragma once

#include "src/casters.h"

namespace smolder::python {

/// CPython's slots of x[index] and x[index] = value.
PyObject* get_item(PyObject* self, PyObject* index);
int set_item(PyObject* self, PyObject* index, PyObject* value);

}  // namespace smolder::python
