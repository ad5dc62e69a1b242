// Watching a call of the program: which code ran, and which functions in C it called. Whoever watches already (a
// profiler) goes on: it is told of everything that happens.
#include <unordered_map>
#include <utility>

#include "smolder/core/error.h"
#include "src/casters.h"

namespace smolder::python {
namespace {

/// One thread's, from start() to stop().
class Watch {
 public:
  Watch() = default;
  Watch(const Watch&) = delete;
  ~Watch() {
    if (on_) stop();
  }

  void start() {
    const PyThreadState* const thread = PyThreadState_Get();
    SMOLDER_CHECK(!t_current, RuntimeError, "this thread's calls are watched already");
    t_current = this;
    before_ = thread->c_profilefunc;
    before_object_ = nb::borrow(thread->c_profileobj);
    on_ = true;
    PyEval_SetProfile(&event, nullptr);
  }
  /// Returns whether it has seen all that happened.
  bool stop() {
    const bool undisturbed = PyThreadState_Get()->c_profilefunc == &event && t_current == this;
    t_current = nullptr;
    on_ = false;
    if (undisturbed) PyEval_SetProfile(before_, before_object_.ptr());
    before_object_.reset();
    return undisturbed;
  }
  nb::list ran() const {
    nb::list out;
    for (const auto& [code, kept] : ran_) out.append(kept);
    return out;
  }
  /// (function, or the class that it is a method of, code that called it).
  nb::list called() const {
    nb::list out;
    for (const auto& [key, call] : called_) out.append(nb::make_tuple(call.first, call.second));
    return out;
  }

 private:
  static int event(PyObject*, PyFrameObject* frame, int what, PyObject* arg) {
    Watch& w = *t_current;
    if (what == PyTrace_CALL || what == PyTrace_C_CALL) {
      nb::object code = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
      if (what == PyTrace_CALL) {
        PyObject* const key = code.ptr();
        w.ran_.try_emplace(key, std::move(code));
      } else {
        // Each call makes a new object of a bound method. Its definition and the class of its `self` stay the same.
        const void* definition = arg;
        PyObject* what_for = arg;
        if (PyCFunction_Check(arg)) {
          PyObject* const self = PyCFunction_GET_SELF(arg);
          definition = reinterpret_cast<PyCFunctionObject*>(arg)->m_ml;
          if (self && !PyType_Check(self) && !PyModule_Check(self))
            what_for = reinterpret_cast<PyObject*>(Py_TYPE(self));
        }
        PyObject* const caller = code.ptr();
        w.called_.try_emplace(Key{definition, what_for, caller}, nb::borrow(what_for), std::move(code));
      }
    }
    return w.before_ ? w.before_(w.before_object_.ptr(), frame, what, arg) : 0;
  }

  struct Key {
    const void *definition, *of, *caller;
    bool operator==(const Key&) const = default;
  };
  struct HashKey {
    size_t operator()(const Key& k) const {
      const auto word = [](const void* p) { return reinterpret_cast<size_t>(p) >> 4; };
      return word(k.definition) ^ word(k.of) * 31 ^ word(k.caller) * 1009;
    }
  };
  std::unordered_map<PyObject*, nb::object> ran_;
  std::unordered_map<Key, std::pair<nb::object, nb::object>, HashKey> called_;
  Py_tracefunc before_ = nullptr;
  nb::object before_object_;
  bool on_ = false;
  static thread_local Watch* t_current;
};
thread_local Watch* Watch::t_current = nullptr;

/// Classes that `class` made are freed by a function of their own, and their objects have room for slots, attributes
/// and weak references alone. Those in C have a function of theirs, or room for what they keep.
bool is_made_by_class(PyObject* o) {
  static const nb::object kExample =
      nb::steal(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type), "s(){}", "C"));
  const auto* const type = reinterpret_cast<const PyTypeObject*>(o);
  if (type->tp_dealloc != reinterpret_cast<const PyTypeObject*>(kExample.ptr())->tp_dealloc) return false;
  PyObject* const slots = reinterpret_cast<const PyHeapTypeObject*>(o)->ht_slots;
  const Py_ssize_t words = 2 + (slots ? PyTuple_GET_SIZE(slots) : 0);
  const Py_ssize_t before = type->tp_base ? type->tp_base->tp_basicsize : 0;
  return type->tp_basicsize - before <= words * static_cast<Py_ssize_t>(sizeof(PyObject*));
}

}  // namespace

void bind_watch(nb::module_& m) {
  nb::class_<Watch>(m, "_Watch")
      .def(nb::init<>())
      .def("start", &Watch::start)
      .def("stop", &Watch::stop)
      .def_prop_ro("ran", &Watch::ran)
      .def_prop_ro("called", &Watch::called);
  m.def("_is_made_by_class", [](const nb::type_object& type) { return is_made_by_class(type.ptr()); });
}

}  // namespace smolder::python
