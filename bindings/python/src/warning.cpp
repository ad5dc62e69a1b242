// Warnings of the runtime as Python's: they arise under locks and on threads that must not take the GIL, so each is
// left for the interpreter to raise between two instructions of the main thread.
#include <charconv>
#include <memory>
#include <string>

#include "smolder/core/counters.h"
#include "src/without_gil.h"

namespace smolder::python {
namespace {

struct Warning {
  std::string text, file;
  int line = 0;
};

/// `where` is "file.py:12 in function"; not all of it need be there.
Warning parse(std::string_view topic, std::string_view text, std::string_view where) {
  Warning w{"smolder " + std::string(topic) + ": " + std::string(text), "", 0};
  const std::string_view place = where.substr(0, where.rfind(" in "));
  const size_t colon = place.rfind(':');
  if (colon == std::string_view::npos) return w;
  const std::string_view digits = place.substr(colon + 1);
  if (std::from_chars(digits.data(), digits.data() + digits.size(), w.line).ec == std::errc()) {
    w.file = place.substr(0, colon);
  }
  return w;
}

/// Called by the interpreter. A filter that turns warnings into errors makes it raise in what runs.
int raise(void* pending) {
  const std::unique_ptr<Warning> w(static_cast<Warning*>(pending));
  if (w->file.empty()) return PyErr_WarnEx(PyExc_UserWarning, w->text.c_str(), 1);
  return PyErr_WarnExplicit(PyExc_UserWarning, w->text.c_str(), w->file.c_str(), w->line, nullptr, nullptr);
}

void handle(std::string_view topic, std::string_view text, std::string_view where) {
  auto pending = std::make_unique<Warning>(parse(topic, text, where));
  if (Py_IsInitialized() && Py_AddPendingCall(&raise, pending.get()) == 0) {
    static_cast<void>(pending.release());
  } else {  // the interpreter is gone, or has many waiting
    debug(0, topic, "warning: " + std::string(text));
  }
}

}  // namespace

void install_warning_handler() { set_warning_handler(&handle); }

}  // namespace smolder::python
