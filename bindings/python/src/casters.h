// How Python arguments become C++ ones: numbers with their category, shapes, axes, dtypes.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <initializer_list>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "smolder/lazy/arguments.h"
#include "smolder/lazy/record.h"
#include "smolder/lazy/tensor.h"
#include "smolder/lazy/view.h"

namespace nb = nanobind;

namespace smolder::python {

/// smolder.float32 and its like: one object a dtype.
struct PyDType {
  DType value;
};

inline std::optional<DType> value_of(const std::optional<PyDType>& d) {
  return d ? std::optional<DType>(d->value) : std::nullopt;
}

/// A result of a function that is made of others.
inline Tensor own(Tensor out) {
  if (out.defined() && out.impl()->base) lazy::take_base(out.impl());
  return out;
}

/// A tensor for Python, as an object that may have been one before.
struct TensorObject {
  nb::object object;
};
/// The object that a function was given, where `out` is its tensor.
inline TensorObject same_or_new(nb::handle given, Tensor out) {
  const bool same = nb::cast<const Tensor&>(given).impl() == out.impl();
  return {same ? nb::borrow(given) : nb::cast(own(std::move(out)))};
}

/// An integer argument of an op: no bool, whose number is an accident, and no float.
struct Int {
  int64_t value = 0;
};
/// Whether it is a tensor that torch takes for no integer: it has dimensions, or is of another kind.
inline bool is_no_integer(nb::handle o) {
  const Tensor* t = nullptr;
  if (!nb::isinstance<Tensor>(o) || !nb::try_cast<const Tensor*>(o, t) || !t) return false;
  return t->dim() != 0 || category(t->dtype()) != category(DType::kInt64);
}

inline std::optional<int64_t> value_of(const std::optional<Int>& i) {
  return i ? std::optional<int64_t>(i->value) : std::nullopt;
}

/// Integers of any number, as those.
struct Ints {
  std::vector<int64_t> items;
};

/// The number a Python bool, int or float is; empty for anything else. NumPy's scalars count.
inline std::optional<Scalar> number_of(PyObject* o) {
  if (PyFloat_Check(o)) return Scalar(PyFloat_AS_DOUBLE(o));
  if (PyBool_Check(o)) return Scalar(o == Py_True);
  if (PyLong_Check(o)) {
    int overflow = 0;
    const int64_t v = PyLong_AsLongLongAndOverflow(o, &overflow);
    SMOLDER_CHECK(!overflow, ValueError, "Overflow when unpacking long: the number doesn't fit 64 bits");
    return Scalar(v);
  }
  return std::nullopt;
}

/// A NumPy scalar or the like: has __index__ or __float__ but is no sequence and no tensor.
std::optional<Scalar> foreign_number(PyObject* o);

/// The element of a tensor without dimensions that needs no gradient, which ends the step, or the real part of a
/// complex number that has no other; empty for anything else.
std::optional<Scalar> number_like(nb::handle o);

/// Python's complex number as an operand.
Tensor complex_of(PyObject* o);

/// An operand that is a tensor or a number.
struct TensorOrNumber {
  Tensor tensor;
  Scalar number = false;
  /// Calls `f` with whichever it is.
  void visit(auto&& f) const {
    if (tensor.defined()) {
      f(tensor);
    } else {
      f(number);
    }
  }
  lazy::Operand operand() const { return tensor.defined() ? lazy::Operand(tensor) : lazy::Operand(number); }
};

/// A list or a tuple of tensors, as torch takes them: no tensor, whose rows would do, and no iterator.
struct TensorItems {
  std::vector<Tensor> items;
};

/// Reads integers from a sequence; false when it holds anything else.
bool read_dims(PyObject* sequence, Dims& out);
/// The integers of `f(2, 3)` or `f((2, 3))`. Throws TypeError in torch's form, for the argument `name` of `function`.
Dims dims_of(const nb::args& args, const char* function, const char* name);

/// torch returns tuples where C++ returns vectors.
inline nb::tuple as_tuple(const std::vector<Tensor>& list) {
  nb::list out;
  for (const Tensor& t : list) out.append(nb::cast(t));
  return nb::tuple(out);
}

/// The type of an op's several results: a tuple whose members have names, as torch.return_types.max. Made once a
/// name, as an attribute of smolder._core._return_types.
PyTypeObject* return_type(nb::module_& m, const char* name, std::initializer_list<const char*> members);

template <class... T>
nb::object named(PyTypeObject* type, std::tuple<T...>&& values) {
  const nb::object out = nb::steal(PyStructSequence_New(type));
  if (!out.is_valid()) nb::raise_python_error();
  Py_ssize_t at = 0;
  std::apply([&](T&... v) { (PyStructSequence_SetItem(out.ptr(), at++, nb::cast(std::move(v)).release().ptr()), ...); },
             values);
  return out;
}

}  // namespace smolder::python

namespace nanobind::detail {

/// NB_TYPE_CASTER's storage, for types without a default constructor.
template <>
struct type_caster<smolder::Scalar> {
  static constexpr auto Name = const_name("int | float | bool");
  template <typename T>
  using Cast = smolder::Scalar;
  template <typename T>
  static constexpr bool can_cast() {
    return true;
  }
  smolder::Scalar value = false;
  bool from_python(handle src, uint8_t flags, cleanup_list*) noexcept {
    try {
      auto n = smolder::python::number_of(src.ptr());
      if (!n) n = smolder::python::foreign_number(src.ptr());
      // A tensor is a number where no overload takes it as the tensor that it is.
      if (!n && (flags & static_cast<uint8_t>(cast_flags::convert))) n = smolder::python::number_like(src);
      if (n) value = *n;
      return n.has_value();
    } catch (const smolder::Error&) {
      return false;
    }
  }
  static handle from_cpp(const smolder::Scalar& s, rv_policy, cleanup_list*) noexcept {
    switch (s.category()) {
      case smolder::Category::kBool:
        return PyBool_FromLong(s.to_bool());
      case smolder::Category::kInt:
        return PyLong_FromLongLong(s.to_int());
      default:
        return PyFloat_FromDouble(s.to_double());
    }
  }
  explicit operator smolder::Scalar() { return value; }
};

template <>
struct type_caster<smolder::python::Int> {
  NB_TYPE_CASTER(smolder::python::Int, const_name("int"))
  bool from_python(handle src, uint8_t flags, cleanup_list* cleanup) noexcept {
    if (PyBool_Check(src.ptr())) return false;
    if (!PyLong_CheckExact(src.ptr()) && smolder::python::is_no_integer(src)) return false;
    type_caster<int64_t> number;
    if (!number.from_python(src, flags, cleanup)) return false;
    value.value = number.value;
    return true;
  }
};

template <>
struct type_caster<smolder::python::Ints> {
  NB_TYPE_CASTER(smolder::python::Ints, const_name("Sequence[int]"))
  bool from_python(handle src, uint8_t flags, cleanup_list* cleanup) noexcept {
    type_caster<std::vector<smolder::python::Int>> each;
    if (!each.from_python(src, flags, cleanup)) return false;
    value.items.clear();
    for (const smolder::python::Int i : each.value) value.items.push_back(i.value);
    return true;
  }
};

template <>
struct type_caster<smolder::python::TensorOrNumber> {
  NB_TYPE_CASTER(smolder::python::TensorOrNumber, const_name("Tensor | int | float | bool | complex"))
  bool from_python(handle src, uint8_t, cleanup_list*) noexcept {
    if (smolder::Tensor * t; nb::try_cast<smolder::Tensor*>(src, t) && t) {
      value.tensor = *t;
      return true;
    }
    if (PyComplex_Check(src.ptr())) {
      value.tensor = smolder::python::complex_of(src.ptr());
      return true;
    }
    type_caster<smolder::Scalar> number;  // no tensor: without the flag to convert
    if (!number.from_python(src, 0, nullptr)) return false;
    value.number = number.value;
    return true;
  }
};

template <>
struct type_caster<smolder::python::TensorObject> {
  static constexpr auto Name = make_caster<smolder::Tensor>::Name;
  static handle from_cpp(smolder::python::TensorObject&& t, rv_policy, cleanup_list*) noexcept {
    return t.object.release();
  }
};

template <>
struct type_caster<smolder::python::TensorItems> {
  NB_TYPE_CASTER(smolder::python::TensorItems, const_name("Sequence[Tensor]"))
  bool from_python(handle src, uint8_t, cleanup_list*) noexcept {
    if (!PyList_Check(src.ptr()) && !PyTuple_Check(src.ptr())) return false;
    return nb::try_cast<std::vector<smolder::Tensor>>(src, value.items);
  }
};

template <>
struct type_caster<smolder::Dims> {
  NB_TYPE_CASTER(smolder::Dims, const_name("Sequence[int]"))
  bool from_python(handle src, uint8_t, cleanup_list*) noexcept {
    try {
      return smolder::python::read_dims(src.ptr(), value);
    } catch (const smolder::Error&) {
      return false;
    }
  }
  static handle from_cpp(const smolder::Dims& d, rv_policy, cleanup_list*) noexcept {
    PyObject* const out = PyTuple_New(d.size());
    for (int i = 0; out && i < d.size(); ++i) PyTuple_SET_ITEM(out, i, PyLong_FromLongLong(d[i]));
    return out;
  }
};

template <>
struct type_caster<smolder::Axes> {
  NB_TYPE_CASTER(smolder::Axes, const_name("int | Sequence[int] | None"))
  bool from_python(handle src, uint8_t, cleanup_list*) noexcept {
    if (src.is_none()) return true;
    if (PyIndex_Check(src.ptr()) && !PyBool_Check(src.ptr()) && !PySequence_Check(src.ptr())) {  // numpy.int64 too
      const Py_ssize_t axis = PyNumber_AsSsize_t(src.ptr(), PyExc_OverflowError);
      if (axis == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        return false;
      }
      value = smolder::Axes(static_cast<int64_t>(axis));
      return true;
    }
    smolder::Dims d;
    if (!smolder::python::read_dims(src.ptr(), d)) return false;
    value = smolder::Axes(d);
    return true;
  }
};

}  // namespace nanobind::detail
