// Guards: what must be as it was for a recorded step of a function to be the one to run: its arguments, and the world
// that it reads. Made from descriptions that smolder/compiler/_world.py writes.
#pragma once

#include <string>
#include <vector>

#include "smolder/core/precision.h"
#include "smolder/lazy/tensor.h"
#include "src/casters.h"

namespace smolder::python {

/// Modes of the calling thread that a recorded step depends on.
struct Modes {
  bool grad, inference, autocast_cache;
  uint8_t autocast;
  DType lower_cpu, lower_cuda, default_dtype;
  Device device;
  Precision precision;
  bool strict;
  bool operator==(const Modes&) const = default;
  static Modes now();
  /// The first mode that differs, with both values.
  std::string difference(const Modes& now) const;
};
/// Whether the thread is in a mode in which functions just run: eager, anomaly detection, recomputation and the like.
bool runs_plainly();

/// The facts about a tensor that a program can see without reading its values.
class TensorGuard {
 public:
  /// `gradient`: whether the function looks at the gradient that a tensor keeps.
  TensorGuard(PyObject* tensor, bool gradient);
  /// `why`, where given, says what differs.
  bool holds(PyObject* tensor, std::string* why) const;
  /// The metadata of the gradient before the call.
  void set_gradient(const ir::Meta* meta) { grad_ = meta; }

 private:
  PyTypeObject* type_;
  const ir::Meta* meta_;
  Device device_;
  bool requires_grad_, inference_, leaf_, view_, is_window_, picked_, detached_, hooks_, retains_, gradient_;
  lazy::ViewOrigin origin_;
  lazy::Layout layout_;             ///< of what may be a window
  const ir::Meta* grad_ = nullptr;  ///< of the gradient; null where there is none
};

/// The guards of one recorded step.
class Guards {
 public:
  /// `arguments` describes (args, kwargs), `world` lists objects with their contents; see _world.py.
  Guards(nb::handle arguments, nb::handle world, nb::handle tensors, nb::handle free, bool gradients);
  /// Whether all hold; fills `found` with the tensors by number. `why` says which does not.
  bool hold(PyObject* args, PyObject* kwargs, std::vector<PyObject*>& found, std::string* why) const;
  int traverse(visitproc visit, void* arg) const;

 private:
  struct Argument {
    enum Kind : uint8_t { kTensor, kValue, kObject, kSequence, kDict } kind;
    uint32_t tensor = 0;
    PyObject* value = nullptr;  ///< expected, or the type
    std::vector<PyObject*> keys;
    std::vector<Argument> parts;
    std::string path;
  };
  struct Item {
    enum Kind : uint8_t {
      kDict,
      kList,
      kSet,
      kCell,
      kFunction,
      kClass,
      kEntry,
      kAttribute,
      kObject,
      kToken,
      kOrder
    } kind;
    PyObject* object;
    std::vector<PyObject*> contents;  ///< of a dict keys and values; null is free
    PyObject* names = nullptr;        ///< the keys of a dict that matter; null: all
    mutable unsigned version = 0;     ///< of a class when it was looked at last; 0: unknown
    std::string path;
  };
  struct WorldTensor {
    PyObject* object;
    Tensor tensor;
    lazy::TensorImpl* base;
    TensorGuard guard;
    std::string path;
    bool plain;  ///< has no attributes of its own
  };
  PyObject* keep(nb::handle o);
  Argument argument(nb::handle description);
  Item item(nb::handle description, nb::handle free);
  bool check(const Argument& a, PyObject* o, std::vector<PyObject*>& found, std::string* why) const;
  bool check(const Item& i, std::string* why) const;
  bool check_aliases(const std::vector<PyObject*>& found, std::string* why) const;

  std::vector<nb::object> kept_;
  Modes modes_;
  bool gradients_;
  Argument arguments_;
  std::vector<Item> items_;
  std::vector<TensorGuard> argument_guards_;
  std::vector<std::string> argument_paths_;
  std::vector<int> same_owner_;  ///< of an argument: the argument before, or -2 - the world tensor, of one storage; -1
  std::vector<bool> same_tensor_;  ///< whether that argument is the same tensor
  std::vector<WorldTensor> world_;
};

/// Equal in the sense of guards: one object, or equal numbers, strings, or tuples of such, of one type.
bool same_value(PyObject* a, PyObject* b);

}  // namespace smolder::python
