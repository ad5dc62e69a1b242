// See slots.cpp.
#pragma once

#include "src/casters.h"

namespace smolder::python {

PyType_Slot* tensor_slots();
void set_tensor_type(PyTypeObject* type);
/// Sets the Python error that `e` becomes, with the user's line.
void set_python_error(const Error& e);

}  // namespace smolder::python
