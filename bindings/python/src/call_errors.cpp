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

/// Replaces the exception that is set by the one that users read.
void explain(PyObject* function, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  const nb::object error = take_binders_error();
  if (!error.is_valid()) return;
  const nb::object given = nb::steal(PyTuple_New(count)), named = nb::steal(PyDict_New());
  const nb::object module = nb::steal(PyImport_ImportModule("smolder._call_errors"));
  if (!given.is_valid() || !named.is_valid() || !module.is_valid()) return;
  for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(given.ptr(), i, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i) {
    if (PyDict_SetItem(named.ptr(), PyTuple_GET_ITEM(names, i), args[count + i]) < 0) return;
  }
  const nb::object message =
      nb::steal(PyObject_CallMethod(module.ptr(), "message", "OOO", function, given.ptr(), named.ptr()));
  if (message.is_valid()) PyErr_SetObject(PyExc_TypeError, message.ptr());
}

template <size_t Entry>
PyObject* call(PyObject* function, PyObject* const* args, size_t count, PyObject* names) {
  PyObject* const result = g_entries[Entry](function, args, count, names);
  if (!result) [[unlikely]]
    // nanobind marks calls of constructors with the bit below CPython's.
    explain(function, args, PyVectorcall_NARGS(count & ~(size_t{1} << (8 * sizeof(size_t) - 2))), names);
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

bool is_bound_function(nb::handle object) {
  const std::string_view type = Py_TYPE(object.ptr())->tp_name;
  return type == "nanobind.nb_func" || type == "nanobind.nb_method" || type == "nb_func" || type == "nb_method";
}

void wrap_all(nb::handle scope) {
  const nb::object members = nb::steal(PyMapping_Values(nb::object(scope.attr("__dict__")).ptr()));
  for (nb::handle member : nb::borrow<nb::list>(members)) {
    if (is_bound_function(member)) {
      wrap(member.ptr());
    } else if (PyType_Check(member.ptr()) && nb::type_check(member)) {
      wrap_all(member);
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
