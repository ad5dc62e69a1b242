// See slots.cpp.
#pragma once

#include "src/casters.h"

namespace smolder::python {

PyType_Slot* tensor_slots();
void set_tensor_type(PyTypeObject* type);
PyTypeObject* tensor_type();
/// The tensor of an object of that type.
inline Tensor& tensor_in(PyObject* o) { return *nb::inst_ptr<Tensor>(nb::handle(o)); }
/// A new object of that type.
PyObject* wrap(Tensor&& t);
/// Sets the Python error that `e` becomes, with the user's line.
void set_python_error(const Error& e);
/// Python's class of OutOfMemoryError: torch's name, and a class of Python's.
PyObject* out_of_memory_type();
/// Raises the Python exception of the C++ one being handled.
PyObject* raise_current();

}  // namespace smolder::python
