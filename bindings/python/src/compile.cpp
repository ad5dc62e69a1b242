// Compiled functions: what a call that hits takes, which is no Python. What records them is smolder/compiler.
#include "smolder/autograd/compiled.h"

#include <memory>
#include <utility>

#include "smolder/core/counters.h"
#include "smolder/jit/cuda/tune.h"
#include "smolder/lazy/tape.h"
#include "src/callable.h"
#include "src/guards.h"
#include "src/slots.h"
#include "src/tensor.h"
#include "src/user_ops.h"
#include "src/without_gil.h"

namespace smolder::python {
namespace {

/// A number that the program keeps in a dict and a step takes as an operand: a count of steps, which each step adds one
/// to, or a learning rate.
struct RunTimeNumber {
  nb::object dict, key;
  bool counts;

  uint64_t next() const {
    PyObject* const now = PyDict_GetItem(dict.ptr(), key.ptr());
    if (!counts) return Scalar(PyFloat_AsDouble(now)).bits();
    // Where a program read the count or wrote it, it is a tensor.
    const nb::object counted = PyLong_CheckExact(now) ? nb::borrow(now) : nb::steal(PyNumber_Long(now));
    if (!counted.is_valid()) throw nb::python_error();
    const int64_t value = PyLong_AsLongLong(counted.ptr()) + 1;
    const nb::object number = nb::steal(PyLong_FromLongLong(value));
    PyDict_SetItem(dict.ptr(), key.ptr(), number.ptr());
    return static_cast<uint64_t>(value);
  }
};

/// Counts before a step, which they have again if it fails.
class Counts {
 public:
  void keep(const RunTimeNumber& n) {
    kept_.push_back({n.dict, n.key, nb::borrow(PyDict_GetItem(n.dict.ptr(), n.key.ptr()))});
  }
  void restore() const {
    for (const Kept& k : kept_) PyDict_SetItem(k.dict.ptr(), k.key.ptr(), k.value.ptr());
  }
  /// The step was given to a device, so that it may still fail.
  void note_given() && {
    if (kept_.empty() || !lazy::Tape::has_given()) return;
    const auto drop = [](Counts* counts) {  // also when a thread ends
      if (!Py_IsInitialized()) return;
      const WithGil gil;
      delete counts;
    };
    std::shared_ptr<Counts> counts(new Counts(std::move(*this)), drop);
    const WithoutGil nogil;
    lazy::Tape::note_given([counts = std::move(counts)] { counts->restore(); });
  }

 private:
  struct Kept {
    nb::object dict, key, value;
  };
  std::vector<Kept> kept_;
};

/// The recording of a function, from its making until close().
class PyCapture {
 public:
  PyCapture(const std::vector<Tensor>& known, bool whole, bool pure, const std::optional<jit::RunMode>& mode)
      : outer_(t_current) {
    {
      const WithoutGil nogil;
      capture_ = std::make_unique<autograd::StepCapture>(known, whole, pure);
    }
    if (mode) scope_.emplace(*mode);
    t_current = this;
  }
  ~PyCapture() { close(); }
  PyCapture(const PyCapture&) = delete;

  autograd::StepCapture& get() {
    SMOLDER_CHECK(capture_, RuntimeError, "the recording is over");
    return *capture_;
  }
  void close() {
    if (!capture_) return;
    capture_.reset();
    scope_.reset();
    t_current = outer_;
  }
  nb::object number(nb::handle dict, nb::handle key, bool counts) {
    nb::object now = nb::borrow(PyDict_GetItem(dict.ptr(), key.ptr()));
    lazy::Capture& capture = get().capture();
    if (capture.broken()) return counts ? now : nb::steal(PyNumber_Float(now.ptr()));
    const Scalar value = counts ? Scalar(nb::cast<int64_t>(now)) : Scalar(nb::cast<double>(now));
    numbers.push_back({nb::borrow(dict), nb::borrow(key), counts});
    return nb::cast(capture.run_time_number(value));
  }

  std::vector<RunTimeNumber> numbers;
  static thread_local PyCapture* t_current;

 private:
  PyCapture* outer_;
  std::unique_ptr<autograd::StepCapture> capture_;
  std::optional<jit::RunModeScope> scope_;
};
thread_local PyCapture* PyCapture::t_current = nullptr;

/// A result as it is put together again: see _outputs.py.
struct Output {
  enum Kind : uint8_t { kMade, kInput, kValue, kTuple, kList, kNamed, kDict, kObject } kind = kValue;
  uint32_t index = 0;
  nb::object value;  ///< or the type
  std::vector<nb::object> keys;
  std::vector<Output> parts;

  static Output of(nb::handle d) {
    static constexpr std::pair<const char*, Kind> kKinds[] = {{"made", kMade},   {"input", kInput},  {"value", kValue},
                                                              {"tuple", kTuple}, {"list", kList},    {"named", kNamed},
                                                              {"dict", kDict},   {"object", kObject}};
    Output out;
    const std::string kind = nb::cast<std::string>(d[0]);
    for (const auto& [name, k] : kKinds) {
      if (kind == name) out.kind = k;
    }
    if (out.kind == kMade || out.kind == kInput) {
      out.index = nb::cast<uint32_t>(d[1]);
    } else {
      out.value = nb::borrow(d[1]);
    }
    if (out.kind >= kTuple) {
      for (nb::handle part : d[2]) out.parts.push_back(of(part));
    }
    if (out.kind >= kDict) {
      for (nb::handle key : d[3]) out.keys.push_back(nb::borrow(key));
    }
    return out;
  }

  nb::object make(const std::vector<nb::object>& made, const std::vector<PyObject*>& inputs) const {
    switch (kind) {
      case kMade:
        return made[index];
      case kInput:
        return nb::borrow(inputs[index]);
      case kValue:
        return value;
      case kList: {
        nb::object out = nb::steal(PyList_New(static_cast<Py_ssize_t>(parts.size())));
        for (size_t i = 0; i < parts.size(); ++i) {
          PyList_SET_ITEM(out.ptr(), static_cast<Py_ssize_t>(i), parts[i].make(made, inputs).release().ptr());
        }
        return out;
      }
      case kTuple:
      case kNamed: {
        nb::object out = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(parts.size())));
        for (size_t i = 0; i < parts.size(); ++i) {
          PyTuple_SET_ITEM(out.ptr(), static_cast<Py_ssize_t>(i), parts[i].make(made, inputs).release().ptr());
        }
        return kind == kTuple ? out : nb::object(value(out));
      }
      case kDict:
      case kObject: {
        nb::object out = kind == kDict ? value() : nb::object(value.attr("__new__")(value));
        nb::object members = kind == kDict ? out : nb::object(out.attr("__dict__"));
        for (size_t i = 0; i < parts.size(); ++i) {
          const nb::object part = parts[i].make(made, inputs);
          if (PyObject_SetItem(members.ptr(), keys[i].ptr(), part.ptr()) < 0) nb::raise_python_error();
        }
        return out;
      }
    }
    return nb::none();
  }
};

/// A recorded step with its guards.
class Entry {
 public:
  /// `inputs` says, for each input of the step, which tensor of the guards it is.
  Entry(nb::handle step, nb::handle guards, std::vector<uint32_t> inputs, nb::handle output, const PyCapture& capture)
      : step_(nb::borrow(step)),
        guards_(nb::cast<Guards*>(guards)),
        kept_(nb::borrow(guards)),
        inputs_(std::move(inputs)),
        output_(Output::of(output)),
        numbers_(capture.numbers) {}

  bool holds(PyObject* args, PyObject* kwargs, std::vector<PyObject*>& found) const {
    return guards_->hold(args, kwargs, found, nullptr) && step().known();
  }
  std::string why(PyObject* args, PyObject* kwargs) const {
    std::string out;
    std::vector<PyObject*> found;
    if (guards_->hold(args, kwargs, found, &out)) return step().known() ? "" : "the runtime forgot its traces";
    return out;
  }
  nb::object put_together(const std::vector<Tensor>& made, const std::vector<PyObject*>& inputs) const {
    std::vector<nb::object> objects;
    objects.reserve(made.size());
    for (const Tensor& t : made) objects.push_back(nb::cast(t));
    return output_.make(objects, inputs);
  }
  nb::object run(const std::vector<PyObject*>& found) const {
    std::vector<PyObject*> objects;
    std::vector<Tensor> inputs;
    objects.reserve(inputs_.size());
    inputs.reserve(inputs_.size());
    for (const uint32_t i : inputs_) {
      objects.push_back(found[i]);
      inputs.push_back(*nb::inst_ptr<Tensor>(nb::handle(found[i])));
    }
    std::vector<uint64_t> numbers;
    Counts counts;
    for (const RunTimeNumber& n : numbers_) {
      if (n.counts) counts.keep(n);
      numbers.push_back(n.next());
    }
    std::vector<Tensor> made;
    try {
      const WithoutGil nogil;
      made = step().run(inputs, std::move(numbers));
    } catch (...) {
      counts.restore();
      throw;
    }
    std::move(counts).note_given();
    return put_together(made, objects);
  }
  const autograd::CompiledStep& step() const { return **nb::inst_ptr<std::shared_ptr<autograd::CompiledStep>>(step_); }
  const std::vector<uint32_t>& inputs() const { return inputs_; }

  int traverse(visitproc visit, void* arg) const {
    if (const int stop = guards_->traverse(visit, arg)) return stop;
    for (const RunTimeNumber& n : numbers_) Py_VISIT(n.dict.ptr());
    return traverse(output_, visit, arg);
  }

  int64_t hits = 0;

 private:
  static int traverse(const Output& o, visitproc visit, void* arg) {
    Py_VISIT(o.value.ptr());
    for (const Output& part : o.parts) {
      if (const int stop = traverse(part, visit, arg)) return stop;
    }
    return 0;
  }

  nb::object step_;
  Guards* guards_;
  nb::object kept_;
  std::vector<uint32_t> inputs_;
  Output output_;
  std::vector<RunTimeNumber> numbers_;
};

/// The callable: tries what was recorded, the latest hit first, and else calls `miss(args, kwargs)`.
struct Compiled {
  nb::object function, miss;
  std::vector<std::shared_ptr<Entry>> entries;
  int64_t until_check = -1;  ///< calls that hit until one is compared; -1: none is
};

PyObject* call_compiled(PyObject* self, PyObject* args, PyObject* kwargs) {
  Compiled& c = *nb::inst_ptr<Compiled>(nb::handle(self));
  if (lazy::Capture::current() || runs_plainly()) return PyObject_Call(c.function.ptr(), args, kwargs);
  try {
    std::vector<PyObject*> found;
    for (size_t i = 0; i < c.entries.size() && c.until_check != 0; ++i) {
      if (!c.entries[i]->holds(args, kwargs, found)) continue;
      if (i > 0) std::swap(c.entries[i], c.entries[0]);
      static Counter& hits = counter("compile.hits");
      hits.add();
      const std::shared_ptr<Entry> hit = c.entries[0];  // another thread may drop it meanwhile
      ++hit->hits;
      if (c.until_check > 0) --c.until_check;
      return hit->run(found).release().ptr();
    }
  } catch (nb::python_error& e) {
    e.restore();
    return nullptr;
  } catch (...) {
    return raise_current();
  }
  const nb::object named = kwargs ? nb::borrow(kwargs) : nb::steal(PyDict_New());
  return PyObject_CallFunctionObjArgs(c.miss.ptr(), args, named.ptr(), nullptr);
}

PyObject* bind_compiled(PyObject* self, PyObject* instance, PyObject*) {
  return instance && instance != Py_None ? PyMethod_New(self, instance) : Py_NewRef(self);
}

int traverse_compiled(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(nb::handle(self))) return 0;
  const Compiled& c = *nb::inst_ptr<Compiled>(nb::handle(self));
  Py_VISIT(c.function.ptr());
  Py_VISIT(c.miss.ptr());
  for (const auto& e : c.entries) {
    if (const int stop = e->traverse(visit, arg)) return stop;
  }
  return 0;
}

int clear_compiled(PyObject* self) {
  Compiled& c = *nb::inst_ptr<Compiled>(nb::handle(self));
  c.entries.clear();
  c.miss.reset();
  c.function.reset();
  return 0;
}

PyType_Slot g_compiled_slots[] = {{Py_tp_call, reinterpret_cast<void*>(&call_compiled)},
                                  {Py_tp_descr_get, reinterpret_cast<void*>(&bind_compiled)},
                                  {Py_tp_traverse, reinterpret_cast<void*>(&traverse_compiled)},
                                  {Py_tp_clear, reinterpret_cast<void*>(&clear_compiled)},
                                  {0, nullptr}};

/// Tensors, then numbers, as the callable of a backend takes them.
nb::list as_inputs(const std::vector<Tensor>& leaves, const std::vector<Scalar>& numbers) {
  nb::list out;
  for (const Tensor& t : leaves) out.append(nb::cast(t));
  for (const Scalar& s : numbers) out.append(nb::cast(s));
  return out;
}

/// Runs a step by what a backend made of its graph.
autograd::StepRunner runner_of(nb::handle callable) {
  return [callable = SharedObject(callable)](const std::vector<Tensor>& leaves, const std::vector<Scalar>& numbers) {
    const WithGil gil;
    try {
      const nb::object results = callable.get()(*nb::tuple(as_inputs(leaves, numbers)));
      std::vector<Tensor> out;
      for (nb::handle t : results) out.push_back(nb::cast<Tensor>(t));
      return out;
    } catch (nb::python_error& e) {
      throw PythonError(std::move(e));
    }
  };
}

void bind_graph(nb::module_& m) {
  using autograd::StepGraph;
  nb::class_<StepGraph>(m, "_StepGraph", "What a compiled function computes: tensors and numbers in, tensors out.")
      .def("__str__", &StepGraph::text)
      .def("__call__", [](const StepGraph& g, const nb::args& args) {
        const size_t tensors = g.leaves().size();
        std::vector<Tensor> leaves;
        std::vector<Scalar> numbers;
        for (size_t i = 0; i < args.size(); ++i) {
          if (i < tensors) {
            leaves.push_back(nb::cast<Tensor>(args[i]));
          } else {
            numbers.push_back(nb::cast<Scalar>(args[i]));
          }
        }
        const std::vector<Tensor> out = [&] {
          const WithoutGil nogil;
          return g.run(leaves, numbers);
        }();
        return as_inputs(out, {});
      });
}

}  // namespace

void bind_compile(nb::module_& m) {
  using Step = std::shared_ptr<autograd::CompiledStep>;
  bind_graph(m);
  nb::class_<Step>(m, "_CompiledStep")
      .def_prop_ro("used", [](const Step& s) { return s->used(); })
      .def_prop_ro("places", [](const Step& s) { return s->places(); })
      .def_prop_ro("graph", [](const Step& s) { return s->graph(); })
      .def("set_runner", [](const Step& s, nb::handle callable) { s->set_runner(runner_of(callable)); })
      .def("set_mode", [](const Step& s, const jit::RunMode& mode) { s->set_mode(mode); })
      .def_prop_ro("ops", [](const Step& s) { return s->ops(); })
      .def_prop_ro("has_backward", [](const Step& s) { return s->has_backward(); });
  nb::class_<jit::RunMode>(m, "_RunMode")
      .def_static("of_thread", &jit::run_mode)
      .def_rw("tunes", &jit::RunMode::tunes)
      .def_rw("at_once", &jit::RunMode::at_once)
      .def_rw("replays", &jit::RunMode::replays)
      .def_rw("constant_sizes", &jit::RunMode::constant_sizes);
  nb::class_<PyCapture>(m, "_StepCapture")
      .def(
          "__init__",
          [](PyCapture* c, const std::vector<Tensor>& known, bool whole, bool pure,
             const std::optional<jit::RunMode>& mode) { new (c) PyCapture(known, whole, pure, mode); },
          nb::arg("known"), nb::arg("whole"), nb::arg("pure"), nb::arg("mode").none() = nb::none())
      .def("finish",
           [](PyCapture& c, const std::vector<Tensor>& outputs,
              const std::vector<Generator*>& generators) -> nb::object {
             Step step;
             {
               const WithoutGil nogil;
               step = c.get().finish(outputs, generators);
             }
             return step ? nb::cast(step) : nb::none();
           })
      .def("note_break",
           [](PyCapture& c, const std::string& why) { c.get().capture().note_break(why, capture_source()); })
      .def("gradients_before",
           [](PyCapture& c) {
             std::vector<uintptr_t> out;  // addresses of metadata, which are valid for ever; 0 is none
             for (size_t i = 0; i < c.get().known(); ++i) {
               out.push_back(reinterpret_cast<uintptr_t>(c.get().gradient_before(i)));
             }
             return out;
           })
      .def_prop_ro("touched_gradients", [](PyCapture& c) { return c.get().capture().touched_gradients(); })
      .def_prop_ro("broken", [](PyCapture& c) { return c.get().capture().broken(); })
      .def_prop_ro("reason", [](PyCapture& c) { return c.get().capture().reason(); })
      .def_prop_ro("where", [](PyCapture& c) { return c.get().capture().where(); })
      .def_prop_ro("numbers",
                   [](const PyCapture& c) {
                     nb::list out;
                     for (const RunTimeNumber& n : c.numbers) out.append(nb::make_tuple(n.dict, n.key));
                     return out;
                   })
      .def("example",
           [](PyCapture& c) {
             const auto [leaves, numbers] = c.get().example();
             return as_inputs(leaves, numbers);
           })
      .def("first_results", [](PyCapture& c) { return c.get().first_results(); })
      .def("leaks", [](PyCapture& c) { return c.get().leaks(); })
      .def("close", &PyCapture::close);
  m.def("_may_tune", &jit::may_tune);
  m.def("_use_tuning", &jit::cuda::use_tuned_kernels);
  m.def("_pause_tuning", &jit::cuda::pause_trials);
  m.def("_resume_tuning", &jit::cuda::resume_trials);
  m.def("_is_capturing", [] { return lazy::Capture::current() != nullptr; });
  m.def(
      "_run_time_number",
      [](nb::handle dict, nb::handle key, bool counts) {
        SMOLDER_CHECK(PyCapture::t_current, RuntimeError, "nothing is being recorded");
        return PyCapture::t_current->number(dict, key, counts);
      },
      nb::arg("dict"), nb::arg("key"), nb::arg("counts"));
  m.def("_note_break", [](const std::string& why) { lazy::break_capture(why, capture_source()); });
  m.def("_count_compile_event", [](const std::string& event) {
    static Counter &recorded = counter("compile.recorded"), &missed = counter("compile.missed"),
                   &broke = counter("compile.broke");
    (event == "recorded" ? recorded : event == "missed" ? missed : broke).add();
  });
  nb::class_<Guards>(m, "_Guards").def(nb::init<nb::handle, nb::handle, nb::handle, nb::handle, bool>());
  nb::class_<Compiled>(m, "_Compiled", nb::dynamic_attr(), nb::is_weak_referenceable(),
                       nb::type_slots(g_compiled_slots))
      .def("__init__", [](Compiled* c, nb::handle function,
                          nb::handle miss) { new (c) Compiled{nb::borrow(function), nb::borrow(miss), {}, -1}; })
      .def(
          "_add",
          [](Compiled& c, nb::handle step, nb::handle guards, std::vector<uint32_t> inputs, nb::handle output,
             const PyCapture& capture, size_t most) {
            auto entry = std::make_shared<Entry>(step, guards, std::move(inputs), output, capture);
            c.entries.insert(c.entries.begin(), std::move(entry));
            if (c.entries.size() > most) c.entries.resize(most);
          },
          "Keeps a recorded step, before the others; drops the last of more than `most`.")
      .def("_put_together",
           [](Compiled& c, const std::vector<Tensor>& made, const std::vector<nb::object>& inputs) {
             std::vector<PyObject*> objects;
             for (const nb::object& o : inputs) objects.push_back(o.ptr());
             return c.entries.at(0)->put_together(made, objects);
           })
      .def("_misses",
           [](Compiled& c, nb::handle args, nb::handle kwargs) {
             std::vector<std::string> out;
             for (const auto& e : c.entries) out.push_back(e->why(args.ptr(), kwargs.ptr()));
             return out;
           })
      .def("_hits",
           [](const Compiled& c) {
             std::vector<int64_t> out;
             for (const auto& e : c.entries) out.push_back(e->hits);
             return out;
           })
      .def("_run_hit",
           [](Compiled& c, nb::handle args, nb::handle kwargs) -> nb::object {
             std::vector<PyObject*> found;
             for (const auto& e : c.entries) {
               if (e->holds(args.ptr(), kwargs.ptr(), found)) return nb::make_tuple(e->run(found));
             }
             return nb::none();
           })
      .def("_forget_first", [](Compiled& c) { c.entries.erase(c.entries.begin()); })
      .def("_forget", [](Compiled& c) { c.entries.clear(); })
      .def_rw("_until_check", &Compiled::until_check)
      .def_prop_ro("_function", [](const Compiled& c) { return c.function; });
}

}  // namespace smolder::python
