#include "src/guards.h"

#include <cstring>
#include <mutex>
#include <span>

#include "smolder/autograd/anomaly.h"
#include "smolder/autograd/hooks.h"
#include "smolder/autograd/node.h"
#include "smolder/autograd/saved.h"
#include "smolder/lazy/autocast.h"
#include "smolder/lazy/branch.h"
#include "smolder/lazy/default_dtype.h"
#include "smolder/lazy/recompute.h"
#include "smolder/lazy/storage.h"
#include "smolder/lazy/strides.h"
#include "smolder/lazy/tape.h"
#include "src/slots.h"

namespace smolder::python {
namespace {

const autograd::TensorMeta* find_meta(const lazy::TensorImpl* impl) {
  return static_cast<const autograd::TensorMeta*>(impl->autograd.get());
}

std::string text(PyObject* o) {
  if (!o) return "nothing";
  nb::object shown = nb::steal(PyObject_Repr(o));
  if (!shown.is_valid()) {
    PyErr_Clear();
    return "something";
  }
  const std::string out = nb::str(shown).c_str();
  return out.size() > 60 ? out.substr(0, 57) + "..." : out;
}

/// The object that was set on a function; null for nothing.
PyObject* members_of(PyObject* function) {
  PyObject* const members = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  return members && PyDict_GET_SIZE(members) > 0 ? members : nullptr;
}

/// The dict of an object's attributes; null where there is none.
PyObject* attributes_of(PyObject* o) {
  PyObject** const dict = _PyObject_GetDictPtr(o);
  return dict ? *dict : nullptr;
}

/// The object in a slot, by its descriptor; null for nothing.
nb::object slot(PyObject* o, PyObject* member) {
  nb::object out = nb::steal(Py_TYPE(member)->tp_descr_get(member, o, reinterpret_cast<PyObject*>(Py_TYPE(o))));
  if (!out.is_valid()) PyErr_Clear();
  return out;
}

nb::object next(const nb::object& iterator) {
  nb::object out = nb::steal(PyIter_Next(iterator.ptr()));
  if (!out.is_valid()) PyErr_Clear();
  return out;
}

/// A number that a class has until it, or a class that it is derived from, changes; 0 where it has none.
unsigned version_of(PyObject* o) {
  const auto* const type = reinterpret_cast<PyTypeObject*>(o);
  return PyType_HasFeature(const_cast<PyTypeObject*>(type), Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
}

std::string changed(const std::string& what, PyObject* before, PyObject* now) {
  return what + " was " + text(before) + " and is " + text(now);
}

}  // namespace

bool same_value(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (!a || !b || Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyFloat_CheckExact(a)) {  // by their bits: a nan is itself, and zeros differ
    const double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
    return std::memcmp(&x, &y, sizeof x) == 0;
  }
  if (PyComplex_CheckExact(a)) {
    const Py_complex x = PyComplex_AsCComplex(a), y = PyComplex_AsCComplex(b);
    return std::memcmp(&x, &y, sizeof x) == 0;
  }
  if (PyTuple_Check(a)) {
    const Py_ssize_t n = PyTuple_GET_SIZE(a);
    if (n != PyTuple_GET_SIZE(b)) return false;
    for (Py_ssize_t i = 0; i < n; ++i) {
      if (!same_value(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) return false;
    }
    return true;
  }
  const bool plain = PyLong_CheckExact(a) || PyUnicode_CheckExact(a) || PyBytes_CheckExact(a) || PyRange_Check(a) ||
                     PySlice_Check(a) || nb::isinstance<PyDType>(a);
  return plain && PyObject_RichCompareBool(a, b, Py_EQ) == 1;
}

// -- modes

Modes Modes::now() {
  lazy::Tape& tape = lazy::Tape::cpu();
  return {lazy::grad_enabled(),
          lazy::inference_mode_enabled(),
          is_autocast_cache_enabled(),
          lazy::NoAutocast::on(),
          get_autocast_dtype(DeviceType::kCPU),
          get_autocast_dtype(DeviceType::kCUDA),
          lazy::default_dtype(),
          lazy::creation_device(),
          smolder::precision(),
          tape.options().strict};
}

std::string Modes::difference(const Modes& now) const {
  const auto differs = [](const char* what, auto before, auto after) {
    return std::string(what) + " was " + std::to_string(static_cast<int>(before)) + " and is " +
           std::to_string(static_cast<int>(after));
  };
  if (grad != now.grad) return differs("grad mode", grad, now.grad);
  if (inference != now.inference) return differs("inference mode", inference, now.inference);
  if (autocast != now.autocast) return differs("autocast (a bit a device type)", autocast, now.autocast);
  if (lower_cpu != now.lower_cpu || lower_cuda != now.lower_cuda) return "the dtype of autocast differs";
  if (default_dtype != now.default_dtype) {
    return "the default dtype was " + std::string(name(default_dtype)) + " and is " +
           std::string(name(now.default_dtype));
  }
  if (autocast_cache != now.autocast_cache) return "whether autocast keeps casts differs";
  if (device != now.device) return "the default device differs";
  if (strict != now.strict) return differs("strict mode", strict, now.strict);
  return "the precision of libraries differs";
}

bool runs_plainly() {
  return lazy::eager_enabled() || lazy::BranchTape::current() || autograd::anomaly_mode() ||
         lazy::Recomputation::current() || autograd::any_saved_tensor_hooks();
}

// -- tensors

TensorGuard::TensorGuard(PyObject* o, bool gradient) : type_(Py_TYPE(o)), gradient_(gradient) {
  const Tensor& t = tensor_in(o);
  const lazy::TensorImpl* const impl = t.impl();
  const autograd::TensorMeta* const m = find_meta(impl);
  meta_ = impl->value->meta;
  device_ = impl->value->device;
  requires_grad_ = impl->requires_grad;
  inference_ = impl->inference;
  leaf_ = !(m && m->grad_fn.node);
  view_ = impl->base;
  detached_ = impl->detached;
  origin_ = impl->origin;
  hooks_ = m && m->leaf_hooks;
  retains_ = m && m->retained;
  is_window_ = impl->may_be_window();
  picked_ = lazy::is_picked(impl);
  if (is_window_) layout_ = lazy::layout(t);
}

bool TensorGuard::holds(PyObject* o, std::string* why) const {
  const auto no = [&](const char* what) {
    if (why) *why = what;
    return false;
  };
  if (Py_TYPE(o) != type_) return no("type");
  const Tensor& t = tensor_in(o);
  const lazy::TensorImpl* const impl = t.impl();
  const lazy::Value& value = *impl->value;
  if (value.meta != meta_) {
    if (why) {
      const ir::Meta &a = *meta_, &b = *value.meta;
      *why = a.dtype != b.dtype ? "dtype was " + std::string(name(a.dtype)) + " and is " + std::string(name(b.dtype))
                                : "shape was " + to_string(a.shape) + " and is " + to_string(b.shape);
    }
    return false;
  }
  if (value.device != device_) return no("device");
  if (value.external) return no("memory, which is shared with arrays now");
  if (impl->requires_grad != requires_grad_) return no("requires_grad");
  if (impl->inference != inference_) return no("inference mode when it was made");
  if ((impl->base != nullptr) != view_ || impl->detached != detached_ || impl->origin != origin_)
    return no("whether it is a view");
  const autograd::TensorMeta* const m = find_meta(impl);
  if (m) [[unlikely]] {
    if (!m->grad_fn.node != leaf_) return no("whether it is a leaf");
    if ((m->leaf_hooks != nullptr) != hooks_) return no("hooks");
    if ((m->retained != nullptr) != retains_) return no("retains_grad");
    const Tensor& grad = m->retained ? *m->retained : m->grad;
    if (gradient_ && (grad.defined() ? grad.impl()->value->meta : nullptr) != grad_) return no("gradient");
  } else if (!leaf_ || hooks_ || retains_ || (gradient_ && grad_)) {
    return no("gradient or history");
  }
  if (lazy::is_picked(impl) != picked_) return no("whether a computed number picked it");
  if (is_window_ != impl->may_be_window()) return no("strides or offset");
  if (is_window_) {
    const lazy::Layout now = lazy::layout(t);
    if (!(now.strides == layout_.strides) || now.offset != layout_.offset) return no("strides or offset");
  }
  return true;
}

// -- guards

PyObject* Guards::keep(nb::handle o) {
  kept_.push_back(nb::borrow(o));
  return o.ptr();
}

Guards::Guards(nb::handle arguments, nb::handle world, nb::handle tensors, nb::handle free, bool gradients)
    : modes_(Modes::now()), gradients_(gradients) {
  arguments_ = argument(arguments);
  for (nb::handle each : world) items_.push_back(item(each, free));
  std::vector<lazy::TensorImpl*> owners, impls;
  for (nb::handle each : tensors) {  // (tensor, path, gradient); those of arguments come first, in order
    const nb::handle t = each[0];
    const size_t at = owners.size();
    lazy::TensorImpl* const impl = tensor_in(t.ptr()).impl();
    owners.push_back(lazy::owner_of(impl));
    impls.push_back(impl);
    const auto* const gradient = reinterpret_cast<const ir::Meta*>(nb::cast<uintptr_t>(each[2]));
    if (at >= argument_guards_.size()) {
      const PyObject* const own = attributes_of(t.ptr());
      world_.push_back({keep(t), Tensor(impl), impl->base, TensorGuard(t.ptr(), gradients_),
                        nb::cast<std::string>(each[1]), !(own && PyDict_GET_SIZE(own) > 0)});
    }
    (at < argument_guards_.size() ? argument_guards_[at] : world_.back().guard).set_gradient(gradient);
  }
  for (size_t i = 0; i < argument_guards_.size(); ++i) {
    int same = -1;
    for (size_t w = argument_guards_.size(); w < owners.size() && same == -1; ++w) {
      if (owners[w] == owners[i]) same = -2 - static_cast<int>(w - argument_guards_.size());
    }
    for (size_t j = 0; j < i && same == -1; ++j) {
      if (owners[j] == owners[i]) same = static_cast<int>(j);
    }
    same_owner_.push_back(same);
    same_tensor_.push_back(same >= 0 && impls[same] == impls[i]);
  }
}

Guards::Argument Guards::argument(nb::handle d) {
  const std::string kind = nb::cast<std::string>(d[0]);
  Argument out;
  out.path = nb::cast<std::string>(d[1]);
  if (kind == "tensor") {
    out.kind = Argument::kTensor;
    out.tensor = static_cast<uint32_t>(argument_guards_.size());
    argument_guards_.emplace_back(nb::object(d[2]).ptr(), gradients_);
    argument_paths_.push_back(out.path);
  } else if (kind == "value" || kind == "object") {
    out.kind = kind == "value" ? Argument::kValue : Argument::kObject;
    out.value = keep(d[2]);
  } else {
    out.kind = kind == "dict" ? Argument::kDict : Argument::kSequence;
    out.value = keep(d[2]);
    for (nb::handle part : d[3]) out.parts.push_back(argument(part));
    if (kind == "dict") {
      for (nb::handle key : d[4]) out.keys.push_back(keep(key));
    }
  }
  return out;
}

Guards::Item Guards::item(nb::handle d, nb::handle free) {
  const std::string kind = nb::cast<std::string>(d[0]);
  Item out;
  out.path = nb::cast<std::string>(d[1]);
  out.object = keep(d[2]);
  const auto add = [&](PyObject* o) { out.contents.push_back(o ? keep(o) : nullptr); };
  if (kind == "dict") {
    out.kind = Item::kDict;
    const nb::object ours =
        nb::borrow(PyDict_GetItem(free.ptr(), nb::int_(reinterpret_cast<intptr_t>(out.object)).ptr()));
    const nb::object names = d[4];
    out.names = names.is_none() ? nullptr : keep(names);
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(out.object, &at, &key, &value);) {
      if (out.names && PySet_Contains(out.names, key) != 1) continue;
      add(key);
      add(ours.is_valid() && PySequence_Contains(ours.ptr(), key) == 1 ? nullptr : value);
    }
  } else if (kind == "list") {
    out.kind = Item::kList;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(out.object); ++i) add(PyList_GET_ITEM(out.object, i));
  } else if (kind == "set") {
    out.kind = Item::kSet;
    add(nb::steal(PyFrozenSet_New(out.object)).ptr());
  } else if (kind == "cell") {
    out.kind = Item::kCell;
    add(PyCell_GET(out.object));
  } else if (kind == "function") {
    out.kind = Item::kFunction;
    add(PyFunction_GET_CODE(out.object));
    add(PyFunction_GET_DEFAULTS(out.object));
    add(PyFunction_GET_KW_DEFAULTS(out.object));
    add(members_of(out.object));
    add(reinterpret_cast<PyFunctionObject*>(out.object)->func_name);
    add(reinterpret_cast<PyFunctionObject*>(out.object)->func_qualname);
  } else if (kind == "object") {  // what it is of, and where its attributes are
    out.kind = Item::kObject;
    add(reinterpret_cast<PyObject*>(Py_TYPE(out.object)));
    add(attributes_of(out.object));
  } else if (kind == "order") {  // of the keys of an OrderedDict, which its dict's order does not tell
    out.kind = Item::kOrder;
    const nb::object keys = nb::steal(PyODict_Type.tp_iter(out.object));
    for (nb::object key = next(keys); key.is_valid(); key = next(keys)) add(key.ptr());
  } else if (kind == "token") {  // object is a function that says whether something changed
    out.kind = Item::kToken;
    const nb::object now = nb::steal(PyObject_CallNoArgs(out.object));
    if (!now.is_valid()) nb::raise_python_error();
    add(now.ptr());
  } else if (kind == "class") {
    out.kind = Item::kClass;
    out.version = version_of(out.object);
    add(reinterpret_cast<PyObject*>(Py_TYPE(out.object)));
    add(reinterpret_cast<PyTypeObject*>(out.object)->tp_mro);
    add(reinterpret_cast<PyHeapTypeObject*>(out.object)->ht_name);
    add(reinterpret_cast<PyHeapTypeObject*>(out.object)->ht_qualname);
    PyObject *key, *value;
    PyObject* const members = reinterpret_cast<PyTypeObject*>(out.object)->tp_dict;
    for (Py_ssize_t at = 0; PyDict_Next(members, &at, &key, &value);) {
      add(key);
      add(value);
    }
  } else if (kind == "entry") {  // object is a dict
    out.kind = Item::kEntry;
    add(nb::object(d[3]).ptr());
    add(PyDict_GetItem(out.object, out.contents[0]));
  } else {
    out.kind = Item::kAttribute;
    add(nb::object(d[3]).ptr());
    add(slot(out.object, out.contents[0]).ptr());
  }
  return out;
}

bool Guards::check(const Argument& a, PyObject* o, std::vector<PyObject*>& found, std::string* why) const {
  const auto no = [&](const std::string& what) {
    if (why) *why = what;
    return false;
  };
  switch (a.kind) {
    case Argument::kTensor: {
      if (!argument_guards_[a.tensor].holds(o, why)) {
        if (why) *why = a.path + ": " + *why;
        return false;
      }
      PyObject** const dict = _PyObject_GetDictPtr(o);
      if (dict && *dict && PyDict_GET_SIZE(*dict) > 0) return no(a.path + " has attributes of its own");
      found[a.tensor] = o;
      return true;
    }
    case Argument::kValue:
      return same_value(a.value, o) || no(why ? changed(a.path, a.value, o) : "");
    case Argument::kObject:
      return a.value == o || no(a.path + " is another object");
    case Argument::kSequence: {
      if (reinterpret_cast<PyObject*>(Py_TYPE(o)) != a.value) return no(a.path + ": type");
      const bool list = PyList_Check(o);
      const auto n = static_cast<size_t>(list ? PyList_GET_SIZE(o) : PyTuple_GET_SIZE(o));
      if (n != a.parts.size()) return no(a.path + ": length");
      for (size_t i = 0; i < n; ++i) {
        PyObject* const part = list ? PyList_GET_ITEM(o, i) : PyTuple_GET_ITEM(o, i);
        if (!check(a.parts[i], part, found, why)) return false;
      }
      return true;
    }
    case Argument::kDict: {
      if (!o) return a.parts.empty() || no(a.path + ": keys");
      if (reinterpret_cast<PyObject*>(Py_TYPE(o)) != a.value) return no(a.path + ": type");
      if (static_cast<size_t>(PyDict_GET_SIZE(o)) != a.parts.size()) return no(a.path + ": keys");
      PyObject *key, *value;
      size_t i = 0;
      for (Py_ssize_t at = 0; PyDict_Next(o, &at, &key, &value); ++i) {  // their order can be seen
        if (!same_value(a.keys[i], key)) return no(a.path + ": keys");
        if (!check(a.parts[i], value, found, why)) return false;
      }
      return true;
    }
  }
  return false;
}

namespace {

/// Compares a dict with keys and values, or what it has of those in `names`, where given; a null value is free, a
/// number of whatever value.
bool same_dict(PyObject* dict, std::span<PyObject* const> contents, PyObject* names, const std::string& path,
               std::string* why) {
  PyObject *key, *value;
  PyObject *const *expected = contents.data(), *const *const end = expected + contents.size();
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
    if (expected != end) {
      if (key == expected[0] && value == expected[1]) [[likely]] {
        expected += 2;
        continue;
      }
      const bool free = !expected[1] && (PyLong_CheckExact(value) || PyFloat_CheckExact(value));
      const bool known = same_value(expected[0], key);
      if (known && (free || same_value(expected[1], value))) {
        expected += 2;
        continue;
      }
      if (known) {
        if (why)
          *why = changed(path + "." + (PyUnicode_Check(key) ? PyUnicode_AsUTF8(key) : text(key)), expected[1], value);
        return false;
      }
    }
    if (names && PySet_Contains(names, key) == 0) continue;
    PyErr_Clear();
    if (why) *why = path + ": there are other keys";
    return false;
  }
  if (expected == end) return true;
  if (why) *why = path + ": there are other keys";
  return false;
}

}  // namespace

bool Guards::check(const Item& i, std::string* why) const {
  const auto same = [&](size_t at, PyObject* now, const char* what = "") {
    if (same_value(i.contents[at], now)) [[likely]]
      return true;
    if (why) *why = changed(i.path + what, i.contents[at], now);
    return false;
  };
  switch (i.kind) {
    case Item::kDict:
      return same_dict(i.object, i.contents, i.names, i.path, why);
    case Item::kClass: {
      const auto* const type = reinterpret_cast<const PyHeapTypeObject*>(i.object);
      const bool of_kind = reinterpret_cast<PyObject*>(Py_TYPE(i.object)) == i.contents[0] &&
                           type->ht_name == i.contents[2] && type->ht_qualname == i.contents[3];
      const unsigned version = version_of(i.object);
      if (of_kind && version != 0 && version == i.version) [[likely]]
        return true;
      if (!of_kind || reinterpret_cast<PyTypeObject*>(i.object)->tp_mro != i.contents[1]) {
        if (why) *why = i.path + ": its name, or the classes that it is of";
        return false;
      }
      const std::span<PyObject* const> members = std::span(i.contents).subspan(4);
      if (!same_dict(reinterpret_cast<PyTypeObject*>(i.object)->tp_dict, members, nullptr, i.path, why)) return false;
      i.version = version;
      return true;
    }
    case Item::kObject:
      if (reinterpret_cast<PyObject*>(Py_TYPE(i.object)) == i.contents[0] && attributes_of(i.object) == i.contents[1])
          [[likely]] {
        return true;
      }
      if (why) *why = i.path + ": its class, or its __dict__ itself";
      return false;
    case Item::kOrder: {
      const nb::object keys = nb::steal(PyODict_Type.tp_iter(i.object));
      for (PyObject* const expected : i.contents) {
        if (next(keys).ptr() == expected) continue;
        if (why) *why = i.path + ": the order of its keys";
        return false;
      }
      return true;
    }
    case Item::kToken: {
      const nb::object now = nb::steal(PyObject_CallNoArgs(i.object));
      if (!now.is_valid()) PyErr_Clear();
      return same(0, now.ptr());
    }
    case Item::kList: {
      const auto n = static_cast<size_t>(PyList_GET_SIZE(i.object));
      if (n != i.contents.size()) {
        if (why)
          *why = i.path + ": its length was " + std::to_string(i.contents.size()) + " and is " + std::to_string(n);
        return false;
      }
      for (size_t k = 0; k < n; ++k) {
        if (!same(k, PyList_GET_ITEM(i.object, k), why ? ("[" + std::to_string(k) + "]").c_str() : "")) return false;
      }
      return true;
    }
    case Item::kSet:
      if (PyObject_RichCompareBool(i.object, i.contents[0], Py_EQ) == 1) return true;
      PyErr_Clear();
      if (why) *why = i.path + " has other members";
      return false;
    case Item::kCell:
      return same(0, PyCell_GET(i.object));
    case Item::kFunction:
      return same(0, PyFunction_GET_CODE(i.object), ".__code__") &&
             same(1, PyFunction_GET_DEFAULTS(i.object), ".__defaults__") &&
             same(2, PyFunction_GET_KW_DEFAULTS(i.object), ".__kwdefaults__") &&
             same(3, members_of(i.object), ".__dict__") &&
             same(4, reinterpret_cast<PyFunctionObject*>(i.object)->func_name, ".__name__") &&
             same(5, reinterpret_cast<PyFunctionObject*>(i.object)->func_qualname, ".__qualname__");
    case Item::kEntry:
      return same(1, PyDict_GetItem(i.object, i.contents[0]));
    case Item::kAttribute: {
      return same(1, slot(i.object, i.contents[0]).ptr());
    }
  }
  return false;
}

bool Guards::check_aliases(const std::vector<PyObject*>& found, std::string* why) const {
  std::vector<lazy::TensorImpl*> owners;
  for (size_t i = 0; i < argument_guards_.size(); ++i) {
    lazy::TensorImpl* const impl = tensor_in(found[i]).impl();
    owners.push_back(lazy::owner_of(impl));
    int same = -1;
    for (size_t w = 0; w < world_.size() && same == -1; ++w) {
      if (lazy::owner_of(world_[w].tensor.impl()) == owners[i]) same = -2 - static_cast<int>(w);
    }
    for (size_t j = 0; j < i && same == -1; ++j) {
      if (owners[j] == owners[i]) same = static_cast<int>(j);
    }
    const bool one = same >= 0 && tensor_in(found[same]).impl() == impl;
    if (same != same_owner_[i] || (same >= 0 && one != same_tensor_[i])) {
      if (why) *why = argument_paths_[i] + ": which tensors it shares memory with";
      return false;
    }
  }
  return true;
}

bool Guards::hold(PyObject* args, PyObject* kwargs, std::vector<PyObject*>& found, std::string* why) const {
  found.resize(argument_guards_.size() + world_.size());
  const Argument &positional = arguments_.parts[0], &named = arguments_.parts[1];
  if (!check(positional, args, found, why) || !check(named, kwargs, found, why)) return false;
  if (const Modes now = Modes::now(); !(now == modes_)) {
    if (why) *why = modes_.difference(now);
    return false;
  }
  for (const Item& i : items_) {
    if (!check(i, why)) return false;
  }
  size_t at = argument_guards_.size();
  for (const WorldTensor& w : world_) {
    const lazy::TensorImpl* const impl = tensor_in(w.object).impl();
    if (const PyObject* const own = attributes_of(w.object); w.plain && own && PyDict_GET_SIZE(own) > 0) {
      if (why) *why = w.path + " has attributes of its own";
      return false;
    }
    if (impl != w.tensor.impl() || impl->base != w.base || !w.guard.holds(w.object, why)) {
      if (why) *why = w.path + ": " + (why->empty() ? "which memory it is on" : *why);
      return false;
    }
    found[at++] = w.object;
  }
  return check_aliases(found, why);
}

int Guards::traverse(visitproc visit, void* arg) const {
  for (const nb::object& o : kept_) Py_VISIT(o.ptr());
  return 0;
}

}  // namespace smolder::python
