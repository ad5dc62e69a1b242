// Sparse tensors as objects of a class in Python, smolder._sparse.SparseTensor: each is the handle of its values.
#pragma once

#include "src/casters.h"

namespace smolder::python {

/// Whether objects of a type are sparse tensors.
bool is_sparse_type(PyTypeObject* type);
/// Whether a tensor is one: there is a handle of its values alone, so that Python answers for it.
bool is_sparse(PyObject* tensor);
/// The object that a tensor is in Python: of a sparse one's values, the sparse tensor; of a wrapper, one of its class.
nb::object object_for(const Tensor& t);
/// Runs `dense += sparse` and its like in Python: smolder._sparse.in_place(name, self, other).
PyObject* sparse_in_place(const char* name, PyObject* self, PyObject* other);
void bind_sparse(nb::module_& m);

}  // namespace smolder::python
