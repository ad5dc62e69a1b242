// What users read when arguments do not fit a function: smolder._call_errors writes it, in torch's form.
#include <algorithm>
#include <array>
#include <string_view>

#include "src/tensor.h"

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

/// After a failed call: replaces the exception that is set by the one that users read. Where a function was given
/// `out`, which none of C++ has, the call is made again without, and its result written there.
PyObject* recover(PyObject* function, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  const nb::object error = take_binders_error();
  if (!error.is_valid()) return nullptr;
  const nb::object given = nb::steal(PyTuple_New(count)), named = nb::steal(PyDict_New());
  if (!given.is_valid() || !named.is_valid()) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(given.ptr(), i, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i) {
    if (PyDict_SetItem(named.ptr(), PyTuple_GET_ITEM(names, i), args[count + i]) < 0) return nullptr;
  }
  const bool has_out = is_function(function) && PyDict_GetItemString(named.ptr(), "out");
  const nb::object module = nb::steal(PyImport_ImportModule(has_out ? "smolder._out" : "smolder._call_errors"));
  if (!module.is_valid()) return nullptr;
  const char* const name = has_out ? "call" : "message";
  nb::object out = nb::steal(PyObject_CallMethod(module.ptr(), name, "OOO", function, given.ptr(), named.ptr()));
  if (has_out || !out.is_valid()) return out.release().ptr();
  PyErr_SetObject(PyExc_TypeError, out.ptr());
  return nullptr;
}

template <size_t Entry>
PyObject* call(PyObject* function, PyObject* const* args, size_t count, PyObject* names) {
  PyObject* const result = g_entries[Entry](function, args, count, names);
  if (result) [[likely]]
    return result;
  // nanobind marks calls of constructors with the bit below CPython's.
  return recover(function, args, PyVectorcall_NARGS(count & ~(size_t{1} << (8 * sizeof(size_t) - 2))), names);
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

/// What calling a class without a constructor does.
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

void explain_call_errors(nb::module_& m) { wrap_all(m); }

}  // namespace smolder::python
