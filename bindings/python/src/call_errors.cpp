// Calls of functions of C++ that are not theirs alone: objects with a __torch_function__ answer those they are given to
// (smolder/overrides.py), and what users read when arguments do not fit is written by smolder._call_errors.
#include "src/call_errors.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>

#include "src/slots.h"
#include "src/tensor.h"
#include "src/wrappers.h"

namespace smolder::python {
namespace {

/// nanobind has one entry for each shape of signature; each gets a wrapper that knows it as a constant index.
constexpr size_t kMostEntries = 16;
std::array<vectorcallfunc, kMostEntries> g_entries{};
constexpr std::string_view kBindersText = "(): incompatible function arguments.";

/// The exception that is set, where the binding generator wrote it; else nothing, and it stays set.
nb::object take_binders_error() {
  if (!PyErr_ExceptionMatches(PyExc_TypeError)) return {};
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  const nb::object text = nb::steal(PyObject_Str(value));
  const char* const chars = text.is_valid() ? PyUnicode_AsUTF8(text.ptr()) : nullptr;
  if (!chars || std::string_view(chars).find(kBindersText) == std::string_view::npos) {
    PyErr_Restore(type, value, trace);
    return {};
  }
  Py_XDECREF(type);
  Py_XDECREF(trace);
  return nb::steal(value);
}

bool is_function(PyObject* object) {
  const std::string_view type = Py_TYPE(object)->tp_name;
  return type == "nanobind.nb_func" || type == "nb_func";
}

bool names_out(PyObject* names) {
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i) {
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), "out") == 0) return true;
  }
  return false;
}

/// Calls a function in Python about a call: module.name(function, args, kwargs).
nb::object told_of(const char* module, const char* name, PyObject* function, PyObject* const* args, Py_ssize_t count,
                   PyObject* names) {
  const nb::object given = nb::steal(PyTuple_New(count)), named = nb::steal(PyDict_New());
  const nb::object of = nb::steal(PyImport_ImportModule(module));
  if (!given.is_valid() || !named.is_valid() || !of.is_valid()) return {};
  for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(given.ptr(), i, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i) {
    if (PyDict_SetItem(named.ptr(), PyTuple_GET_ITEM(names, i), args[count + i]) < 0) return {};
  }
  return nb::steal(PyObject_CallMethod(of.ptr(), name, "OOO", function, given.ptr(), named.ptr()));
}

/// How many modes are on, which answer every call first, and the classes of tensors that answer calls they are given
/// to, which live as long as the process. The GIL guards both.
int g_modes = 0;
std::unordered_set<PyTypeObject*> g_answering;

bool answers(PyObject* o) {
  PyTypeObject* const type = Py_TYPE(o);
  if (type == tensor_type()) return false;
  if (type != &PyList_Type && type != &PyTuple_Type) return g_answering.contains(type);
  PyObject** const items = PySequence_Fast_ITEMS(o);
  return std::any_of(items, items + PySequence_Fast_GET_SIZE(o), answers);
}

bool asks_first(PyObject* const* args, size_t count) { return g_modes > 0 || std::any_of(args, args + count, answers); }

/// The answer of an object or a mode to a call; NotImplemented where it is the function's own, null for an error.
PyObject* answer(PyObject* function, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return told_of("smolder.overrides", "_answer", function, args, count, names).release().ptr();
}

/// The result of a call that did not fit: the answer of an argument that is no tensor but answers for itself, that of
/// the arguments in an order that they had once, the result written to `out`, or null and the exception that users
/// read.
PyObject* explain(PyObject* function, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  const nb::object error = take_binders_error();
  if (!error.is_valid()) return nullptr;
  PyObject* const answered = answer(function, args, count, names);
  if (answered != Py_NotImplemented) return answered;
  Py_DECREF(answered);
  const nb::object older = told_of("smolder._other_forms", "call", function, args, count, names);
  if (!older.is_valid()) return nullptr;
  if (older.ptr() != Py_NotImplemented) return nb::object(older).release().ptr();
  // No function in C++ takes `out`: Python calls it again without, and writes the result there.
  if (is_function(function) && names_out(names)) {
    return told_of("smolder._out", "call", function, args, count, names).release().ptr();
  }
  const nb::object told = told_of("smolder._call_errors", "error", function, args, count, names);
  if (told.is_valid()) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(told.ptr())), told.ptr());
  return nullptr;
}

/// Whether an argument is of a class with a __torch_dispatch__, or a list of such.
bool has_wrapper(PyObject* o) {
  PyTypeObject* const type = Py_TYPE(o);
  if (type != &PyList_Type && type != &PyTuple_Type) return is_wrapper_type(type);
  PyObject** const items = PySequence_Fast_ITEMS(o);
  return std::any_of(items, items + PySequence_Fast_GET_SIZE(o), has_wrapper);
}

/// A call with tensors of such classes: of what is recorded as no op Python asks the class.
template <size_t Entry>
PyObject* call_with_wrappers(PyObject* function, PyObject* const* args, size_t count, PyObject* names) {
  const Py_ssize_t given = PyVectorcall_NARGS(count);
  const nb::object answered = told_of("smolder._wrappers", "answer", function, args, given, names);
  if (!answered.is_valid()) return nullptr;
  if (answered.ptr() != Py_NotImplemented) return Py_NewRef(answered.ptr());
  PyObject* const result = g_entries[Entry](function, args, count, names);
  if (!result) return explain(function, args, given, names);
  for (Py_ssize_t i = 0; i < given; ++i) {
    if (is_wrapper_type(Py_TYPE(args[i]))) update_attributes(args[i]);
  }
  return as_its_class(result);
}

template <size_t Entry>
PyObject* call(PyObject* function, PyObject* const* args, size_t count, PyObject* names) {
  // nanobind marks calls of constructors with the bit below CPython's.
  constexpr size_t kConstructor = size_t{1} << (8 * sizeof(size_t) - 2);
  if ((g_modes > 0 || !g_answering.empty()) && !(count & kConstructor)) [[unlikely]] {
    const size_t given = PyVectorcall_NARGS(count);
    const size_t all = given + (names ? PyTuple_GET_SIZE(names) : 0);
    if (asks_first(args, all)) {
      PyObject* const answered = answer(function, args, given, names);
      if (answered != Py_NotImplemented) return answered;
      Py_DECREF(answered);
      if (std::any_of(args, args + all, has_wrapper)) return call_with_wrappers<Entry>(function, args, count, names);
    }
  }
  PyObject* const result = g_entries[Entry](function, args, count, names);
  if (!result) [[unlikely]]
    return explain(function, args, PyVectorcall_NARGS(count & ~kConstructor), names);
  return result;
}

template <size_t... Entry>
constexpr std::array<vectorcallfunc, kMostEntries> wrappers(std::index_sequence<Entry...>) {
  return {&call<Entry>...};
}
constexpr auto kWrappers = wrappers(std::make_index_sequence<kMostEntries>());

void wrap(PyObject* function) {
  auto* const entry =
      reinterpret_cast<vectorcallfunc*>(reinterpret_cast<char*>(function) + Py_TYPE(function)->tp_vectorcall_offset);
  if (std::find(kWrappers.begin(), kWrappers.end(), *entry) != kWrappers.end()) return;
  size_t at = 0;
  while (at < kMostEntries && g_entries[at] && g_entries[at] != *entry) ++at;
  SMOLDER_CHECK(at < kMostEntries, InternalError, "nanobind has more than ", kMostEntries, " ways to call a function");
  g_entries[at] = *entry;
  *entry = kWrappers[at];
}

/// Calls a class without a constructor.
PyObject* refuse_to_make(PyObject* type, PyObject* const*, size_t, PyObject*) {
  std::string_view name = reinterpret_cast<PyTypeObject*>(type)->tp_name;
  name.remove_prefix(name.rfind('.') + 1);
  PyErr_Format(PyExc_TypeError, "cannot create 'smolder.%s' instances", name.data());
  return nullptr;
}

bool is_bound_function(nb::handle object) {
  const std::string_view type = Py_TYPE(object.ptr())->tp_name;
  return is_function(object.ptr()) || type == "nanobind.nb_method" || type == "nb_method";
}

void wrap_all(nb::handle scope) {
  const nb::object members = nb::steal(PyMapping_Values(nb::object(scope.attr("__dict__")).ptr()));
  for (nb::handle member : nb::borrow<nb::list>(members)) {
    if (is_bound_function(member)) {
      wrap(member.ptr());
    } else if (PyType_Check(member.ptr()) && nb::type_check(member)) {
      wrap_all(member);
      if (!is_bound_function(member.attr("__init__")))
        reinterpret_cast<PyTypeObject*>(member.ptr())->tp_vectorcall = refuse_to_make;
    } else if (Py_TYPE(member.ptr()) == &PyProperty_Type) {
      for (const char* part : {"fget", "fset"}) {
        const nb::object function = member.attr(part);
        if (is_bound_function(function)) wrap(function.ptr());
      }
    } else if (Py_TYPE(member.ptr()) == &PyStaticMethod_Type) {
      const nb::object function = member.attr("__func__");
      if (is_bound_function(function)) wrap(function.ptr());
    }
  }
}

}  // namespace

void ask_class(PyTypeObject* type) { g_answering.insert(type); }
bool modes_are_on() { return g_modes > 0; }

void explain_call_errors(nb::module_& m) {
  m.def("_count_modes", [](int more) { g_modes += more; }, nb::arg("more"));
  m.def(
      "_ask_class", [](nb::handle cls) { ask_class(reinterpret_cast<PyTypeObject*>(cls.inc_ref().ptr())); },
      nb::arg("cls"));
  wrap_all(m);
}

}  // namespace smolder::python
