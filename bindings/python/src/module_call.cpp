// Calls of nn.Module. Without hooks, which is nearly always, the way to forward() takes less than a frame of Python's.
#include <array>
#include <vector>

#include "src/tensor.h"

namespace smolder::python {
namespace {

/// Dictionaries of a module that hooks around its calls are in.
constexpr std::array kOwn{"_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"};

/// Interned names, and what smolder.nn.hooks hands over; kept as long as the interpreter.
struct Hooks {
  std::array<PyObject*, kOwn.size()> own;
  PyObject *forward, *compiled;
  std::vector<PyObject*> of_all;    ///< dictionaries of hooks on all modules
  PyObject* call_hooked = nullptr;  ///< call_hooked(module, args, kwargs)
};
Hooks* g_hooks = nullptr;

/// Whether any hook is around a call of `self`; -1 with an exception set.
int is_hooked(PyObject* self) {
  for (PyObject* hooks : g_hooks->of_all) {
    if (PyDict_GET_SIZE(hooks) != 0) return 1;
  }
  const nb::object members = nb::steal(PyObject_GenericGetDict(self, nullptr));
  if (!members.is_valid()) return -1;
  for (PyObject* name : g_hooks->own) {
    nb::object hooks = nb::borrow(PyDict_GetItemWithError(members.ptr(), name));
    if (!hooks.is_valid()) {
      if (PyErr_Occurred()) return -1;
      hooks = nb::steal(PyObject_GetAttr(self, name));  // which says what is wrong
      if (!hooks.is_valid()) return -1;
    }
    const int some = PyDict_Check(hooks.ptr()) ? PyDict_GET_SIZE(hooks.ptr()) != 0 : PyObject_IsTrue(hooks.ptr());
    if (some != 0) return some;
  }
  return 0;
}

PyObject* call_hooked(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  const nb::object given = nb::steal(PyTuple_New(count)), named = nb::steal(PyDict_New());
  if (!given.is_valid() || !named.is_valid()) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(given.ptr(), i, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i) {
    if (PyDict_SetItem(named.ptr(), PyTuple_GET_ITEM(names, i), args[count + i]) < 0) return nullptr;
  }
  return PyObject_CallFunctionObjArgs(g_hooks->call_hooked, self, given.ptr(), named.ptr(), nullptr);
}

PyObject* call_plainly(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  const int hooked = is_hooked(self);
  if (hooked < 0) return nullptr;
  if (hooked) [[unlikely]]
    return call_hooked(self, args, count, names);
  const nb::object forward = nb::steal(PyObject_GetAttr(self, g_hooks->forward));
  return forward.is_valid() ? PyObject_Vectorcall(forward.ptr(), args, static_cast<size_t>(count), names) : nullptr;
}

PyObject* call(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  const nb::object members = nb::steal(PyObject_GenericGetDict(self, nullptr));
  if (!members.is_valid()) return nullptr;
  PyObject* const compiled = PyDict_GetItemWithError(members.ptr(), g_hooks->compiled);  // by Module.compile()
  if (compiled) [[unlikely]]
    return PyObject_Vectorcall(compiled, args, static_cast<size_t>(count), names);
  if (PyErr_Occurred()) return nullptr;
  return call_plainly(self, args, count, names);
}

PyMethodDef g_methods[] = {
    {"_call_impl", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call_plainly)),
     METH_FASTCALL | METH_KEYWORDS, "_call_impl($self, /, *args, **kwargs)\n--\n\n__call__(), not compiled."},
    {"__call__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call)), METH_FASTCALL | METH_KEYWORDS,
     "__call__($self, /, *args, **kwargs)\n--\n\nforward(), between the hooks there are."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void bind_module_call(nb::module_& m) {
  g_hooks = new Hooks;
  for (size_t i = 0; i < kOwn.size(); ++i) g_hooks->own[i] = PyUnicode_InternFromString(kOwn[i]);
  g_hooks->forward = PyUnicode_InternFromString("forward");
  g_hooks->compiled = PyUnicode_InternFromString("_compiled_call_impl");
  m.def(
      "_set_module_hooks",
      [](const std::vector<nb::dict>& of_all, nb::object call_hooked) {
        g_hooks->of_all.clear();
        for (const nb::dict& hooks : of_all) g_hooks->of_all.push_back(nb::object(hooks).release().ptr());
        g_hooks->call_hooked = call_hooked.release().ptr();
      },
      nb::arg("of_all"), nb::arg("call_hooked"));

  PyType_Slot slots[] = {{Py_tp_methods, g_methods}, {0, nullptr}};
  PyType_Spec spec{"smolder._core._ModuleCall", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  m.attr("_ModuleCall") = nb::steal(PyType_FromSpec(&spec));
}

}  // namespace smolder::python
