#include "src/wrappers.h"

#include <unordered_set>

#include "smolder/lazy/wrapper.h"
#include "src/call_errors.h"
#include "src/callable.h"
#include "src/slots.h"

namespace smolder::python {
namespace {

/// Classes of such tensors, which live as long as the process. The GIL guards them.
std::unordered_set<PyTypeObject*> g_types;

/// What a value keeps of its tensor: the class, and the dictionary of attributes.
struct Content {
  SharedObject type, attributes;
};

nb::object object_with(nb::handle type, nb::handle attributes, const Tensor& t) {
  nb::object out = nb::inst_alloc(type);
  new (nb::inst_ptr<Tensor>(out)) Tensor(t);
  nb::inst_mark_ready(out);
  out.attr("__dict__") = attributes;
  return out;
}

const Content& content_of(const lazy::WrapperValue& value) { return *static_cast<const Content*>(value.content.get()); }

nb::object make(nb::handle type, const Dims& shape, const Dims& strides, PyDType dtype, const std::string& device) {
  const nb::dict attributes;
  auto content = std::make_shared<Content>(SharedObject(type), SharedObject(attributes));
  const Tensor t = lazy::make_wrapper({shape, dtype.value, false}, strides, parse_device(device), std::move(content),
                                      nb::cast<std::string>(type.attr("__name__")));
  return object_with(type, attributes, t);
}

PyObject* g_parameter_class = nullptr;  ///< lives as long as the process; the GIL guards it

/// isinstance() of the runtime's classes: a parameter of such a tensor is of that class, and is a Parameter all the
/// same.
PyObject* is_instance(PyObject* cls, PyObject* object) {
  if (PyType_IsSubtype(Py_TYPE(object), reinterpret_cast<PyTypeObject*>(cls))) Py_RETURN_TRUE;
  if (cls == g_parameter_class && is_wrapper_type(Py_TYPE(object))) {
    const nb::object is_one = nb::steal(PyObject_GetAttrString(object, "_is_param"));
    if (!is_one.is_valid()) PyErr_Clear();
    return PyBool_FromLong(is_one.ptr() == Py_True);
  }
  static PyObject* const of_types =
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyType_Type), "__instancecheck__");
  return PyObject_CallFunctionObjArgs(of_types, cls, object, nullptr);
}

void set_parameter_class(nb::handle cls) {
  static PyMethodDef definition = {"__instancecheck__", &is_instance, METH_O, nullptr};
  g_parameter_class = cls.inc_ref().ptr();
  PyTypeObject* const metaclass = Py_TYPE(cls.ptr());
  const nb::object method = nb::steal(PyDescr_NewMethod(metaclass, &definition));
  // The metaclass lets nobody set attributes, so its dictionary is written, and what is cached of it forgotten.
  if (!method.is_valid() || PyDict_SetItemString(metaclass->tp_dict, definition.ml_name, method.ptr()) < 0)
    nb::raise_python_error();
  PyType_Modified(metaclass);
}

}  // namespace

bool is_wrapper_type(PyTypeObject* type) { return g_types.contains(type); }

nb::object wrapper_object(const Tensor& t) {
  const Content& content = content_of(*lazy::wrapper(t.impl()));
  return object_with(content.type.get(), content.attributes.get(), t);
}

PyObject* as_its_class(PyObject* result) {
  if (!result) return nullptr;
  if (Py_TYPE(result) == tensor_type()) {
    const Tensor& t = tensor_in(result);
    if (!t.defined() || !lazy::wrapper(t.impl())) return result;
    const nb::object given = nb::steal(result);
    return wrapper_object(t).release().ptr();
  }
  if (!PyTuple_Check(result) && !PyList_CheckExact(result)) return result;
  PyObject** const items = PySequence_Fast_ITEMS(result);  // nobody else has seen it yet
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(result); ++i) items[i] = as_its_class(items[i]);
  return result;
}

void update_attributes(PyObject* object) {
  const Tensor& t = tensor_in(object);
  const lazy::WrapperValue* const value = t.defined() ? lazy::wrapper(t.impl()) : nullptr;
  if (!value) return;
  const nb::handle attributes = content_of(*value).attributes.get(), self = object;
  const nb::dict before(self.attr("__dict__"));
  if (before.is(attributes)) return;
  // What the object was given stays, as that it is a parameter, where the new value says nothing else of it.
  if (PyDict_Merge(attributes.ptr(), before.ptr(), /*override=*/0) < 0) nb::raise_python_error();
  self.attr("__dict__") = attributes;
}

void bind_wrappers(nb::module_& m) {
  m.def(
      "_add_wrapper_class",
      [](nb::handle cls) {
        auto* const type = reinterpret_cast<PyTypeObject*>(cls.inc_ref().ptr());
        g_types.insert(type);
        ask_class(type);
      },
      nb::arg("cls"), "Says that a class of tensors has a __torch_dispatch__.");
  m.def("_set_parameter_class", &set_parameter_class, nb::arg("cls"), "Says which class parameters are of.");
  m.def("_make_wrapper", &make, nb::arg("cls"), nb::arg("shape"), nb::arg("strides"), nb::arg("dtype"),
        nb::arg("device"), "A tensor of such a class, without elements.");
  m.def(
      "_is_wrapper", [](const Tensor& t) { return t.defined() && lazy::wrapper(t.impl()) != nullptr; }, nb::arg("x"),
      "Whether a tensor was made so.");
}

}  // namespace smolder::python
