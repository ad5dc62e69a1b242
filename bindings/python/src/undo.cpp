// Dicts of Python that a step changes beside tensors: they have again what they had, if it fails.
#include <memory>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include "smolder/lazy/tape.h"
#include "src/without_gil.h"

namespace nb = nanobind;

namespace smolder::python {
namespace {

/// A dict, and those in it, as they were. Made and dropped by whoever has the GIL.
class Kept {
 public:
  explicit Kept(nb::handle dict) { keep(dict, 0); }

  void restore() const {
    for (const nb::object& dict : dicts_) PyDict_Clear(dict.ptr());
    for (const Entry& e : entries_) PyDict_SetItem(dicts_[e.dict].ptr(), e.key.ptr(), e.value.ptr());
  }

 private:
  static constexpr int kDepth = 3;  ///< of dicts in dicts

  struct Entry {
    size_t dict;  ///< in `dicts_`
    nb::object key, value;
  };

  // Entry by entry, as they are: the iterator of a subclass, which a copy would use, may give something else.
  void keep(nb::handle dict, int depth) {
    const size_t place = dicts_.size();
    dicts_.push_back(nb::borrow(dict));
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(dict.ptr(), &at, &key, &value);) {
      entries_.push_back({place, nb::borrow(key), nb::borrow(value)});
      if (depth + 1 < kDepth && PyDict_Check(value)) keep(value, depth + 1);
    }
  }

  std::vector<nb::object> dicts_;
  std::vector<Entry> entries_;
};

bool is_any_pending() {
  if (lazy::Tape::cpu().has_pending()) return true;
  const WithoutGil nogil;
  bool pending = false;
  lazy::Tape::each([&](lazy::Tape& tape) { pending |= tape.has_pending(); });
  return pending;
}

}  // namespace

void bind_undo(nb::module_& m) {
  m.def(
      "_restore_on_failure",
      [](const nb::dict& dict, bool if_pending, bool updates) {
        const bool has_run = if_pending && !is_any_pending();  // the step that it comes after
        if (has_run && !lazy::Tape::has_given()) return;
        const auto drop = [](Kept* kept) {  // also when a thread ends
          if (!Py_IsInitialized()) return;
          const WithGil gil;
          delete kept;
        };
        auto undo = [kept = std::shared_ptr<Kept>(new Kept(dict), drop)] { kept->restore(); };
        const WithoutGil nogil;
        if (!has_run) return lazy::Tape::note_undo(std::move(undo), updates);
        lazy::Tape::note_given(std::move(undo));
      },
      nb::arg("dict"), nb::arg("if_pending") = false, nb::arg("updates") = false,
      "A dict, and dicts in it, have again what they have now if the step that is being recorded fails; or, with "
      "if_pending and nothing recorded, the step that a device was given last.");
}

}  // namespace smolder::python
