// Why steps were compiled, for Python.
#include "smolder/lazy/recompile.h"

#include "src/tensor.h"

namespace smolder::python {

nb::dict recompile_dict(const lazy::Recompile& r) {
  nb::dict entry;
  entry["cause"] = std::string(name(r.cause));
  entry["compiled"] = r.compiled;
  entry["behind"] = r.behind;
  entry["reason"] = r.reason;
  entry["where"] = r.where;
  entry["before"] = r.before;
  entry["milliseconds"] = r.milliseconds;
  entry["text"] = r.text();
  nb::list kernels;
  for (const jit::BuiltKernel& k : r.kernels) {
    nb::dict kernel;
    kernel["name"] = k.name;
    kernel["key"] = to_hex(k.key);
    kernel["where"] = k.where;
    kernel["milliseconds"] = k.milliseconds;
    kernels.append(kernel);
  }
  entry["kernels"] = kernels;
  return entry;
}

void bind_recompiles(nb::module_& m) {
  m.def("_recompiles", [] {
    nb::list out;
    for (const lazy::Recompile& r : lazy::recompiles()) out.append(recompile_dict(r));
    return out;
  });
  m.def("_forget_recompiles", &lazy::forget_recompiles);
  m.def("_recompile_log", [] { return static_cast<int>(lazy::recompile_log()); });
  m.def("_set_recompile_log", [](int log) { lazy::set_recompile_log(static_cast<lazy::RecompileLog>(log)); });
  m.def("_on_recompile", [] { return static_cast<int>(lazy::on_recompile()); });
  m.def("_set_on_recompile", [](int action) { lazy::set_on_recompile(static_cast<lazy::OnRecompile>(action)); });
}

}  // namespace smolder::python
