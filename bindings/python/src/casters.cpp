#include "src/casters.h"

namespace smolder::python {

std::optional<Scalar> foreign_number(PyObject* o) {
  if (PySequence_Check(o) || nb::isinstance<Tensor>(nb::handle(o)) || PyUnicode_Check(o)) return std::nullopt;
  if (PyIndex_Check(o)) {
    const nb::object n = nb::steal(PyNumber_Index(o));
    if (n.is_valid()) return number_of(n.ptr());
    PyErr_Clear();
    return std::nullopt;
  }
  const PyNumberMethods* const methods = Py_TYPE(o)->tp_as_number;
  if (!methods || !methods->nb_float) return std::nullopt;
  const double v = PyFloat_AsDouble(o);
  if (v == -1.0 && PyErr_Occurred()) {
    PyErr_Clear();
    return std::nullopt;
  }
  return Scalar(v);
}

bool read_dims(PyObject* sequence, Dims& out) {
  if (PyUnicode_Check(sequence) || !PySequence_Check(sequence) || nb::isinstance<Tensor>(nb::handle(sequence)))
    return false;
  const nb::object fast = nb::steal(PySequence_Fast(sequence, "expected a sequence of integers"));
  if (!fast.is_valid()) {
    PyErr_Clear();
    return false;
  }
  out = {};
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.ptr()); ++i) {
    PyObject* const item = PySequence_Fast_GET_ITEM(fast.ptr(), i);
    if (!PyIndex_Check(item) || PyBool_Check(item)) return false;
    const Py_ssize_t v = PyNumber_AsSsize_t(item, PyExc_OverflowError);
    if (v == -1 && PyErr_Occurred()) {
      PyErr_Clear();
      return false;
    }
    out.push_back(v);
  }
  return true;
}

Dims dims_of(const nb::args& args) {
  Dims out;
  if (args.size() == 1 && read_dims(nb::handle(args[0]).ptr(), out)) return out;
  SMOLDER_CHECK(read_dims(args.ptr(), out), TypeError, "expected integers, or one sequence of integers, got ",
                nb::repr(args).c_str());
  return out;
}

}  // namespace smolder::python
