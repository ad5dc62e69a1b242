// Ops and kernels written in Python.
#pragma once

#include <memory>
#include <string>

#include "smolder/core/interrupt.h"
#include "src/casters.h"

namespace smolder::python {

/// Adds a note to a Python exception. Takes the GIL.
void note_on(const nb::python_error& error, const std::string& note);
/// Makes it the exception that Python is raising. Needs the GIL.
void restore(const nb::python_error& error);

/// A Python exception on its way through the runtime, which may be on any thread and without the GIL.
template <class Base>
class PythonErrorAs final : public Base {
 public:
  explicit PythonErrorAs(nb::python_error&& e)
      : Base(e.what()), error_(std::make_shared<nb::python_error>(std::move(e))) {}
  const char* python_type() const noexcept override { return "RuntimeError"; }
  [[noreturn]] void rethrow(const std::string& note) const override {
    note_on(*error_, note);
    throw PythonErrorAs(*this);
  }
  const nb::python_error& error() const { return *error_; }

 private:
  std::shared_ptr<nb::python_error> error_;
};
/// An exception that code of a user raised.
using PythonError = PythonErrorAs<ForeignError>;
/// An exception that a handler of signals raised: KeyboardInterrupt, unless the program has another.
using PythonInterrupt = PythonErrorAs<Interrupted>;

/// Has work that takes long stop when a signal's handler raises.
void watch_signals();

void bind_user_ops(nb::module_& m);

}  // namespace smolder::python
