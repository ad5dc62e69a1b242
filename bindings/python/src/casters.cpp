#include "src/casters.h"

#include "smolder/lazy/complex.h"
#include "src/without_gil.h"

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

Tensor complex_of(PyObject* o) {
  const Py_complex z = PyComplex_AsCComplex(o);
  return lazy::complex_number(z.real, z.imag);
}

std::optional<Scalar> number_like(nb::handle o) {
  if (PyComplex_Check(o.ptr())) {
    const Py_complex z = PyComplex_AsCComplex(o.ptr());
    return z.imag == 0.0 ? std::optional<Scalar>(z.real) : std::nullopt;
  }
  Tensor* t = nullptr;
  if (!nb::try_cast<Tensor*>(o, t) || !t || t->dim() != 0 || t->requires_grad()) return std::nullopt;
  const WithoutGil nogil;
  return t->item();
}

PyTypeObject* return_type(nb::module_& m, const char* name, std::initializer_list<const char*> members) {
  if (!nb::hasattr(m, "_return_types"))
    m.attr("_return_types") = nb::module_::import_("types").attr("SimpleNamespace")();
  const nb::object types = m.attr("_return_types");
  if (nb::hasattr(types, name)) return reinterpret_cast<PyTypeObject*>(nb::object(types.attr(name)).ptr());
  std::vector<PyStructSequence_Field> fields;
  for (const char* member : members) fields.push_back({member, nullptr});
  fields.push_back({nullptr, nullptr});
  const std::string full = std::string("smolder.return_types.") + name;
  PyStructSequence_Desc description = {full.c_str(), nullptr, fields.data(), static_cast<int>(members.size())};
  PyTypeObject* const type = PyStructSequence_NewType(&description);
  if (!type) nb::raise_python_error();
  types.attr(name) = nb::steal(reinterpret_cast<PyObject*>(type));
  return type;
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
  if (PySequence_Fast_GET_SIZE(fast.ptr()) > kMaxRank) return false;  // casters must not throw
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

Dims dims_of(const nb::args& args, const char* function, const char* name) {
  Dims out;
  nb::handle sizes = args;
  if (args.size() == 1 && (PyTuple_Check(args[0].ptr()) || PyList_Check(args[0].ptr()))) sizes = args[0];
  SMOLDER_CHECK(PySequence_Size(sizes.ptr()) <= kMaxRank, ValueError, "tensors have at most ", kMaxRank, " dimensions");
  if (args.size() == 1 && read_dims(nb::handle(args[0]).ptr(), out)) return out;
  if (read_dims(args.ptr(), out)) return out;
  const nb::object text = nb::module_::import_("smolder._call_errors").attr("size_message")(function, name, args);
  throw TypeError(nb::cast<std::string>(text));
}

}  // namespace smolder::python
