// Tensors of classes with a __torch_dispatch__, whose elements Python has (smolder/_wrappers.py): each object of one is
// a handle of a value that knows its class and its attributes, so that what C++ kept becomes an object of it again.
#pragma once

#include "src/casters.h"

namespace smolder::python {

/// Whether objects of a type are such tensors.
bool is_wrapper_type(PyTypeObject* type);
/// An object of the class that a tensor is of, which shares the attributes of others of the same value.
nb::object wrapper_object(const Tensor& t);
/// The result of a call, with what is such a tensor as an object of its class; takes the reference and gives one.
PyObject* as_its_class(PyObject* result);
/// Gives an object the attributes of its value, which an op in place may have changed.
void update_attributes(PyObject* object);
void bind_wrappers(nb::module_& m);

}  // namespace smolder::python
