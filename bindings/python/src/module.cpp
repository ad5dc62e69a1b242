// The module smolder._core.
#include <unordered_map>

#include "smolder/autograd/print.h"
#include "smolder/core/buffer.h"
#include "smolder/core/counters.h"
#include "smolder/core/thread_pool.h"
#include "smolder/jit/cache/kernel_cache.h"
#include "smolder/jit/kernel_queue.h"
#include "smolder/jit/run/arena.h"
#include "smolder/lazy/plan_queue.h"
#include "smolder/lazy/tape.h"
#include "src/cells.h"
#include "src/slots.h"
#include "src/sparse.h"
#include "src/tensor.h"
#include "src/user_ops.h"
#include "src/without_gil.h"
#include "src/wrappers.h"

namespace smolder::python {
namespace {

void bind_metrics(nb::module_& m) {
  m.def(
      "metrics",
      [] {
        const MetricsSnapshot snapshot = metrics();
        nb::dict out;
        nb::object counters = nb::module_::import_("collections").attr("Counter")();  // 0 for what was not touched
        for (const auto& [name, value] : snapshot.counters) counters[name.c_str()] = value;
        nb::list events;
        for (const EventSummary& s : snapshot.events) {
          nb::dict e;
          e["kind"] = s.event.kind;
          e["reason"] = s.event.reason;
          e["where"] = s.event.where;
          e["count"] = s.count;
          e["milliseconds"] = s.event.milliseconds;
          events.append(e);
        }
        out["counters"] = counters;
        out["events"] = events;
        return out;
      },
      "Counters since the start or the last reset, and the events of late (docs/metrics.md).");
  m.def("metrics_report", &metrics_report, "The metrics as text.");
  m.def("reset_metrics", &reset_metrics, "Sets counters to zero and forgets events.");
  m.def(
      "memory_stats",
      [] {
        const MemoryStats s = memory_stats();
        nb::dict out;
        out["live"] = s.live;
        out["peak"] = s.peak;
        out["cached"] = s.cached;
        return out;
      },
      "Bytes of tensors live, at most live, and kept for reuse.");
  m.def(
      "empty_cache",
      [] {
        jit::Arena::of(DeviceType::kCPU).release();
        empty_cache();
      },
      "Gives memory that is kept for reuse back to the system.");
  m.def("_reset_peak_memory", &reset_peak_memory);
  m.def("_fail_allocation_after", &fail_allocation_after);
}

void bind_options(nb::module_& m) {
  m.def(
      "set_num_threads",
      [](int n) {
        SMOLDER_CHECK(n > 0, RuntimeError, "set_num_threads expects a positive integer, got ", n);
        set_num_threads(n);
      },
      nb::arg("n"), "How many threads kernels may use.");
  m.def("get_num_threads", &num_threads, "How many threads kernels use.");
  m.def(
      "set_options",
      [](std::optional<bool> predict, std::optional<bool> fuse, std::optional<bool> simplify,
         std::optional<uint32_t> soft_bound, std::optional<uint32_t> hard_bound, std::optional<uint64_t> hash_mask,
         std::optional<uint64_t> random_tiers) {
        lazy::Tape::each([&](lazy::Tape& tape) {
          lazy::TapeOptions& o = tape.options();
          o.predict = predict.value_or(o.predict);
          o.compile.fuse = fuse.value_or(o.compile.fuse);
          o.compile.simplify = simplify.value_or(o.compile.simplify);
          o.soft_bound = soft_bound.value_or(o.soft_bound);
          o.hard_bound = hard_bound.value_or(o.hard_bound);
          o.hash_mask = hash_mask.value_or(o.hash_mask);
          o.random_tiers = random_tiers.value_or(o.random_tiers);
          tape.forget_traces();
        });
      },
      nb::kw_only(), nb::arg("predict") = nb::none(), nb::arg("fuse") = nb::none(), nb::arg("simplify") = nb::none(),
      nb::arg("soft_bound") = nb::none(), nb::arg("hard_bound") = nb::none(), nb::arg("hash_mask") = nb::none(),
      nb::arg("random_tiers") = nb::none(),
      "Switches for tests and tools; those not given stay. Forgets recorded traces.");
  m.def(
      "wait_for_compiles", &wait_for_compiles, nb::call_guard<WithoutGil>(),
      "Waits until all plans are compiled that are compiled behind the program: the steps that ran op by op meanwhile "
      "run as plans from now on.");
  m.def("_finish_compiling", [] {
    const WithoutGil nogil;
    lazy::PlanQueue::get().finish();
    jit::KernelQueue::get().finish();
  });
  m.def(
      "_set_compiling",
      [](bool behind) {
        const bool before = lazy::compiling() == lazy::Compiling::kBehind;
        lazy::set_compiling(behind ? lazy::Compiling::kBehind : lazy::Compiling::kWait);
        return before;
      },
      nb::arg("behind"), "Whether plans are compiled behind the program; returns what was set before.");
  m.def(
      "is_strict",
      [] {
        lazy::Tape& tape = lazy::Tape::cpu();
        const std::lock_guard hold(tape.mutex());
        return tape.options().strict;
      },
      "Whether an op that would run eagerly is refused.");
  m.def(
      "set_strict",
      [](bool on) {
        lazy::Tape::each([&](lazy::Tape& tape) {
          if (on && !tape.options().strict) tape.forget_traces();  // what they hold was not checked
          tape.options().strict = on;
        });
      },
      nb::arg("on"), "Whether an op that would run eagerly is refused.");
  m.def(
      "tell_fallback",
      [](const std::string& what, const std::string& consequence) {
        lazy::tell_fallback(what, consequence, capture_source());
      },
      nb::arg("what"), nb::arg("consequence"), "Counts a fallback, and warns of it once a line.");
  m.def("_build_kernels_anew", [](bool on) { jit::KernelCache::global().set_cold(on); });
  m.def("_leave_kernels_on_disk", [] {  // where there is a database; else they will be built again
    const WithoutGil nogil;
    jit::KernelCache& cache = jit::KernelCache::global();
    cache.flush();
    cache.memory().clear();
  });
  m.def(
      "forget_traces", [] { lazy::Tape::each([](lazy::Tape& tape) { tape.forget_traces(); }); },
      "Forgets recorded traces and their plans; kernels stay in the cache.");
}

void bind_printing(nb::module_& m) {
  m.def("_print_options", [] {
    const PrintOptions o = print_options();
    return nb::make_tuple(o.precision, o.threshold, o.edgeitems, o.linewidth, o.sci_mode);
  });
  m.def(
      "_set_print_options",
      [](int precision, double threshold, int edgeitems, int linewidth, std::optional<bool> sci_mode) {
        set_print_options({precision, threshold, edgeitems, linewidth, sci_mode});
      },
      nb::arg("precision"), nb::arg("threshold"), nb::arg("edgeitems"), nb::arg("linewidth"),
      nb::arg("sci_mode").none());
  m.def(
      "_tensor_text",
      [](const Tensor& t, const std::string& kind, const std::string& package) { return to_string(t, kind, package); },
      nb::call_guard<WithoutGil>());
}

/// Attributes that programs set, by function. Functions live as long as the module; the GIL guards it.
std::unordered_map<PyObject*, PyObject*>& attributes() {
  static auto* const it = new std::unordered_map<PyObject*, PyObject*>;
  return *it;
}

getattrofunc g_getattr = nullptr;

PyObject* get_attribute(PyObject* function, PyObject* name) {
  if (const auto own = attributes().find(function); own != attributes().end()) {
    if (PyObject* const value = PyDict_GetItem(own->second, name)) return Py_NewRef(value);
  }
  return g_getattr(function, name);
}

int set_attribute(PyObject* function, PyObject* name, PyObject* value) {
  PyObject*& own = attributes()[function];
  if (!own && !(own = PyDict_New())) return -1;
  if (value) return PyDict_SetItem(own, name, value);
  if (PyDict_DelItem(own, name) == 0) return 0;
  if (PyErr_ExceptionMatches(PyExc_KeyError)) PyErr_SetObject(PyExc_AttributeError, name);
  return -1;
}

/// Has programs derive metaclasses from the type of `tensor`, the class of tensors, and set attributes of functions, of
/// which `function` is one.
void open_types(nb::handle tensor, nb::handle function) {
  // Annotations of shapes are classes of a metaclass derived from that of tensors.
  Py_TYPE(tensor.ptr())->tp_flags |= Py_TPFLAGS_BASETYPE;
  // Functions of torch.nn.functional are Python's there, and libraries note on them what belongs to them.
  PyTypeObject* const type = Py_TYPE(function.ptr());
  g_getattr = type->tp_getattro;
  type->tp_getattro = get_attribute;
  type->tp_setattro = set_attribute;
  PyType_Modified(type);
}

}  // namespace

void bind_runtime(nb::module_& m) {
  m.def("mark_step", &mark_step, nb::call_guard<WithoutGil>(), "Ends the step: what was recorded is computed.");
  m.def("_run_recorded", &run_recorded, nb::call_guard<WithoutGil>());
  m.def(
      "step_boundary", [](const std::string& reason) { step_boundary(reason); }, nb::call_guard<WithoutGil>(),
      nb::arg("reason"), "Ends the step where boundaries do so; optimizers call it.");
  bind_metrics(m);
  bind_options(m);
  bind_printing(m);
  m.def("_install_source_provider", &install_source_provider);
  m.def("_set_cells", &set_cells);
  watch_signals();
}

NB_MODULE(_core, m) {
  // Argument defaults hold dtypes until the interpreter is gone; that is no leak.
  nb::set_leak_warnings(false);
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Error& e) {
      set_python_error(e);
    }
  });
  m.attr("OutOfMemoryError") = nb::borrow(out_of_memory_type());
  nb::class_<Tensor> tensor = bind_tensor(m);
  bind_numbers(m);
  bind_generator(m);
  bind_autograd(m, tensor);
  bind_ops(m, tensor);
  bind_factors(m, tensor);
  bind_linalg(m);
  bind_vmap(m);
  bind_sparse(m);
  bind_wrappers(m);
  bind_precision(m);
  bind_module_call(m);
  bind_watch(m);
  install_warning_handler();
  bind_runtime(m);
  bind_user_ops(m);
  bind_recompiles(m);
  bind_profile(m);
  bind_undo(m);
  bind_plans(m);
  bind_control_flow(m);
  bind_cache(m);
  bind_doctor(m);
  bind_bench(m);
  bind_compile(m);
  bind_captured(m);
  bind_replay(m);
  bind_distributed(m);
  explain_call_errors(m);  // of all that was bound
  open_types(tensor, m.attr("metrics"));
}

}  // namespace smolder::python
