// Ops and kernels written in Python.
#pragma once

#include <memory>
#include <string>

#include "src/casters.h"

namespace smolder::python {

/// A Python exception on its way through the runtime, which may be on any thread and without the GIL.
class PythonError final : public ForeignError {
 public:
  explicit PythonError(nb::python_error&& e)
      : ForeignError(e.what()), error_(std::make_shared<nb::python_error>(std::move(e))) {}
  const char* python_type() const noexcept override { return "RuntimeError"; }
  [[noreturn]] void rethrow(const std::string& note) const override;
  /// Makes it the exception that Python is raising. Needs the GIL.
  void restore() const;

 private:
  std::shared_ptr<nb::python_error> error_;
};

void bind_user_ops(nb::module_& m);

}  // namespace smolder::python
