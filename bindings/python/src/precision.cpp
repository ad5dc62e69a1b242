// Autocast, scaling of gradients, and how exact the products of libraries have to be.
#include "smolder/core/precision.h"

#include <tuple>

#include "smolder/eager/cuda/cudnn.h"
#include "smolder/lazy/autocast.h"
#include "smolder/lazy/op_support.h"
#include "smolder/nn/grad_scaler.h"
#include "src/dtype.h"
#include "src/tensor.h"

namespace smolder::python {
namespace {

DeviceType type_named(const std::string& name) { return parse_device(name).type; }

/// function(tensors), they cast where the function called `name` is on a list of autocast's.
nb::object call_autocast(const std::string& name, const std::vector<Tensor>& tensors, const nb::callable& function) {
  lazy::AutocastCall call(lazy::cast_rules(name));
  for (const Tensor& t : tensors) call.see(t);
  if (!call.applies()) return function(tensors);
  std::vector<Tensor> cast;
  for (const Tensor& t : tensors) cast.push_back(call.cast(t));
  return function(cast);
}

/// Enters a region: what was before. Bound as one call, for steps are short.
std::tuple<bool, PyDType*, bool> enter_autocast(const std::string& name, bool on, PyDType dtype, bool cache_enabled) {
  const DeviceType type = type_named(name);
  const std::tuple before{is_autocast_enabled(type), the_dtype(get_autocast_dtype(type)), is_autocast_cache_enabled()};
  set_autocast_enabled(type, on);
  set_autocast_dtype(type, dtype.value);
  set_autocast_cache_enabled(cache_enabled);
  autocast_increment_nesting();
  return before;
}

void exit_autocast(const std::string& name, bool on, PyDType dtype, bool cache_enabled) {
  if (autocast_decrement_nesting() == 0) clear_autocast_cache();
  const DeviceType type = type_named(name);
  set_autocast_enabled(type, on);
  set_autocast_dtype(type, dtype.value);
  set_autocast_cache_enabled(cache_enabled);
}

void bind_autocast(nb::module_& m) {
  m.def("_enter_autocast", &enter_autocast, nb::rv_policy::reference);
  m.def("_exit_autocast", &exit_autocast);
  m.def("_is_autocast_available", [](const std::string& type) { return is_autocast_available(type_named(type)); });
  m.def("_is_autocast_enabled", [](const std::string& type) { return is_autocast_enabled(type_named(type)); });
  m.def("_set_autocast_enabled", [](const std::string& type, bool on) { set_autocast_enabled(type_named(type), on); });
  m.def(
      "_get_autocast_dtype", [](const std::string& type) { return the_dtype(get_autocast_dtype(type_named(type))); },
      nb::rv_policy::reference);
  m.def("_set_autocast_dtype",
        [](const std::string& type, PyDType dtype) { set_autocast_dtype(type_named(type), dtype.value); });
  m.def("_autocasting", &lazy::autocasting);
  m.def("_call_autocast", &call_autocast);
  m.def("is_autocast_cache_enabled", &is_autocast_cache_enabled, "Whether casts of weights are kept for a region.");
  m.def("set_autocast_cache_enabled", &set_autocast_cache_enabled, nb::arg("enabled"),
        "Whether casts of weights are kept for a region.");
  m.def("autocast_increment_nesting", &autocast_increment_nesting, "Enters a region; how many the thread is in then.");
  m.def("autocast_decrement_nesting", &autocast_decrement_nesting, "Leaves a region; how many the thread is in then.");
  m.def("clear_autocast_cache", &clear_autocast_cache, "Forgets the casts of weights that are kept for a region.");
}

void bind_scaling(nb::module_& m) {
  m.def(
      "_amp_foreach_non_finite_check_and_unscale_",
      [](const std::vector<Tensor>& grads, const Tensor& found_inf, const Tensor& inv_scale) {
        amp::non_finite_check_and_unscale(grads, found_inf, inv_scale);
      },
      nb::arg("self"), nb::arg("found_inf"), nb::arg("inv_scale"));
  m.def(
      "_amp_update_scale_",
      [](const Tensor& scale, const Tensor& growth_tracker, const Tensor& found_inf, double growth_factor,
         double backoff_factor, int64_t growth_interval) {
        amp::update_scale(scale, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval);
        return scale;
      },
      nb::arg("self"), nb::arg("growth_tracker"), nb::arg("found_inf"), nb::arg("scale_growth_factor"),
      nb::arg("scale_backoff_factor"), nb::arg("growth_interval"));
}

/// A flag of `Precision` as functions _get_NAME and _set_NAME.
template <bool Precision::* flag>
void bind_flag(nb::module_& m, const std::string& name) {
  m.def(("_get_" + name).c_str(), [] { return precision().*flag; });
  m.def(("_set_" + name).c_str(), [](bool on) {
    Precision p = precision();
    p.*flag = on;
    set_precision(p);
  });
}

}  // namespace

void bind_precision(nb::module_& m) {
  bind_autocast(m);
  bind_scaling(m);
  m.def("_get_matmul_precision", [] { return static_cast<int>(precision().float32_matmul); });
  m.def("_set_matmul_precision", [](int which) {
    Precision p = precision();
    p.float32_matmul = static_cast<MatmulPrecision>(which);
    set_precision(p);
  });
  bind_flag<&Precision::allow_fp16_reduced_precision_reduction>(m, "fp16_reduction");
  bind_flag<&Precision::allow_bf16_reduced_precision_reduction>(m, "bf16_reduction");
  m.def("_get_attention_ways", &lazy::attention_ways);
  m.def("_set_attention_ways", &lazy::set_attention_ways);
  m.def("_cudnn_version", [] { return eager::cuda::cudnn_version(); });
  bind_flag<&Precision::cudnn_enabled>(m, "cudnn_enabled");
  bind_flag<&Precision::cudnn_allow_tf32>(m, "cudnn_allow_tf32");
  bind_flag<&Precision::cudnn_benchmark>(m, "cudnn_benchmark");
  bind_flag<&Precision::cudnn_deterministic>(m, "cudnn_deterministic");
}

}  // namespace smolder::python
