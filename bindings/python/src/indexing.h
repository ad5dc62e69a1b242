// See indexing.cpp.
#pragma once

#include <cstdint>
#include <optional>

#include "src/casters.h"

namespace smolder::python {

/// The number in an integer tensor without dimensions where it is in memory of the host, and in no step to come: for
/// what reads no more than that. Nothing while a function is recorded, whose calls have other numbers.
std::optional<int64_t> known_number(const Tensor& t);
/// from[..., i, j, ...] from dimension `axis` on. Where every position is a number, a write to it is one to `from`.
Tensor pick(const Tensor& from, int64_t axis, const std::vector<Tensor>& positions);

/// CPython's slots of x[index] and x[index] = value.
PyObject* get_item(PyObject* self, PyObject* index);
int set_item(PyObject* self, PyObject* index, PyObject* value);

}  // namespace smolder::python
