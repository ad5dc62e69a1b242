// Python callables that the runtime calls: from any thread, and let go of on any thread.
#pragma once

#include <memory>
#include <string>

#include "src/casters.h"
#include "src/sparse.h"
#include "src/without_gil.h"

namespace smolder::python {

/// Shares a Python object; the last to let go of it takes the GIL to do so.
class SharedObject {
 public:
  explicit SharedObject(nb::handle object) : object_(object.inc_ref().ptr(), &let_go) {}
  nb::handle get() const { return object_.get(); }

 private:
  static void let_go(PyObject* o) {
    if (!Py_IsInitialized()) return;
    const WithGil gil;
    Py_DECREF(o);
  }
  std::shared_ptr<PyObject> object_;
};

/// None for an undefined tensor.
inline nb::object object_of(const Tensor& t) { return t.defined() ? object_for(t) : nb::none(); }

inline nb::tuple objects_of(const std::vector<Tensor>& list) {
  nb::list out;
  for (const Tensor& t : list) out.append(object_of(t));
  return nb::tuple(out);
}

/// The tensors of optional ones, undefined where absent.
inline std::vector<Tensor> defined_or_not(const std::vector<std::optional<Tensor>>& list) {
  std::vector<Tensor> out;
  out.reserve(list.size());
  for (const auto& t : list) out.push_back(t.value_or(Tensor()));
  return out;
}

/// A Python type's name.
inline std::string python_type(nb::handle o) { return Py_TYPE(o.ptr())->tp_name; }

}  // namespace smolder::python
