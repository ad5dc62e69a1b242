// x[index] and x[index] = value for the indices that programs mostly have: integers, slices, None, ..., and tensors of
// positions and masks for dimensions side by side. smolder/_indexing.py takes every other index, and says what is wrong
// with one.
#include "src/indexing.h"

#include <algorithm>
#include <span>
#include <vector>

#include "smolder/lazy/batch.h"
#include "smolder/lazy/capture.h"
#include "smolder/lazy/former.h"
#include "smolder/lazy/op_support.h"
#include "smolder/lazy/ops.h"
#include "smolder/lazy/storage.h"
#include "smolder/lazy/view.h"
#include "src/call_errors.h"
#include "src/slots.h"
#include "src/sparse.h"
#include "src/wrappers.h"

namespace smolder::python {
namespace {

std::span<PyObject* const> items_of(PyObject* const& index) {
  if (!PyTuple_CheckExact(index)) return {&index, 1};
  return {&PyTuple_GET_ITEM(index, 0), static_cast<size_t>(PyTuple_GET_SIZE(index))};
}

/// Whether it is an int, which no bool is, of 64 bits.
bool read_integer(PyObject* o, int64_t& value) {
  int overflow = 0;
  if (!PyLong_CheckExact(o)) return false;
  value = PyLong_AsLongLongAndOverflow(o, &overflow);
  return overflow == 0;
}

struct Bounds {
  std::optional<int64_t> start, stop, step;
  bool is_whole() const { return !start && !stop && step.value_or(1) == 1; }
};
bool read_bound(PyObject* o, std::optional<int64_t>& bound) {
  if (o == Py_None) return true;
  int64_t value = 0;
  if (!read_integer(o, value)) return false;
  bound = value;
  return true;
}
bool read_bounds(PyObject* o, Bounds& bounds) {
  if (!PySlice_Check(o)) return false;
  auto* const slice = reinterpret_cast<PySliceObject*>(o);
  return read_bound(slice->start, bounds.start) && read_bound(slice->stop, bounds.stop) &&
         read_bound(slice->step, bounds.step) && bounds.step.value_or(1) > 0;
}

/// The same, and a tensor without dimensions whose number is there to be read: it selects a view, as in torch.
bool read_position(PyObject* o, int64_t& value) {
  if (Py_TYPE(o) != tensor_type()) return read_integer(o, value);
  const Tensor& t = tensor_in(o);
  const std::optional<int64_t> known = t.dim() == 0 ? known_number(t) : std::nullopt;
  value = known.value_or(0);
  return known.has_value();
}

/// A tensor whose elements are positions, where the indexed tensor is.
bool are_positions(const Tensor& indexed, PyObject* o) {
  if (Py_TYPE(o) != tensor_type()) return false;
  const Tensor& t = tensor_in(o);
  return (t.dtype() == DType::kInt64 || t.dtype() == DType::kInt32) && t.device() == indexed.device();
}

bool is_mask(const Tensor& indexed, PyObject* o) {
  if (Py_TYPE(o) != tensor_type()) return false;
  const Tensor& t = tensor_in(o);
  return t.dtype() == DType::kBool && t.dim() > 0 && t.device() == indexed.device();
}

/// Has a mask the sizes of dimensions from `axis` on?
bool covers(const Tensor& mask, const Tensor& t, int axis) {
  if (axis + mask.dim() > t.dim()) return false;
  for (int i = 0; i < mask.dim(); ++i) {
    if (mask.size(i) != t.size(axis + i)) return false;
  }
  return true;
}

/// The selection of an index: the elements of a view that tensors of positions name for its dimensions from `axis` on,
/// or the view.
struct Selection {
  Tensor view;
  int axis = 0;
  std::vector<Tensor> positions;
};

enum class Masks { kNone, kRead };  ///< a mask is read to know how many elements it names

/// Whether every item is read here, and there are dimensions enough; how many the items other than ... take.
bool is_plain(const Tensor& t, std::span<PyObject* const> items, Masks masks, int& taken) {
  int ellipses = 0, first = -1, last = -1, count = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    PyObject* const item = items[i];
    if (item == Py_None) continue;
    if (item == Py_Ellipsis) {
      if (++ellipses > 1) return false;
      continue;
    }
    int64_t ignored;
    Bounds bounds;
    const bool masked = masks == Masks::kRead && is_mask(t, item);
    taken += masked ? tensor_in(item).dim() : 1;
    if (read_position(item, ignored) || read_bounds(item, bounds)) continue;
    if (!masked && !are_positions(t, item)) return false;
    first = first < 0 ? static_cast<int>(i) : first;
    last = static_cast<int>(i);
    ++count;
  }
  return taken <= t.dim() && (count == 0 || last - first + 1 == count);
}

/// Nothing for an index that Python parses, or refuses.
std::optional<Selection> select_items(const Tensor& t, PyObject* index, Masks masks) {
  const std::span<PyObject* const> items = items_of(index);
  int taken = 0, axis = 0;
  if (!is_plain(t, items, masks, taken)) return std::nullopt;
  Selection out{t, 0, {}};
  for (PyObject* const item : items) {
    int64_t at = 0;
    Bounds bounds;
    if (item == Py_None) {
      out.view = unsqueeze(out.view, axis++);
    } else if (item == Py_Ellipsis) {
      axis += t.dim() - taken;
    } else if (read_position(item, at)) {
      const int64_t n = out.view.size(axis);
      if (at < -n || at >= n) return std::nullopt;
      out.view = select(out.view, axis, at);
    } else if (read_bounds(item, bounds)) {
      if (!bounds.is_whole()) out.view = slice(out.view, axis, bounds.start, bounds.stop, bounds.step.value_or(1));
      ++axis;
    } else {
      if (out.positions.empty()) out.axis = axis;
      const Tensor& found = tensor_in(item);
      if (found.dtype() != DType::kBool) {
        out.positions.push_back(found);
        ++axis;
        continue;
      }
      if (!covers(found, out.view, axis)) return std::nullopt;
      for (Tensor& column : unbind(nonzero(found), 1)) out.positions.push_back(std::move(column));
      axis += found.dim();
    }
  }
  return out;
}

std::optional<Scalar> plain_number(PyObject* value) {
  int64_t whole = 0;
  if (PyFloat_CheckExact(value)) return Scalar(PyFloat_AS_DOUBLE(value));
  if (PyBool_Check(value)) return Scalar(value == Py_True);
  return read_integer(value, whole) ? std::optional(Scalar(whole)) : std::nullopt;
}

/// Dimensions of what an index selects.
int rank_of(const Selection& s) {
  int most = 0;
  for (const Tensor& p : s.positions) most = std::max(most, p.dim());
  return s.view.dim() - static_cast<int>(s.positions.size()) + most;
}

/// False: Python sets it.
bool set_plain(const Tensor& t, PyObject* index, PyObject* value) {
  const std::optional<Scalar> number = plain_number(value);
  if (!number && (Py_TYPE(value) != tensor_type() || tensor_in(value).device() != t.device())) return false;
  std::optional<Selection> to = select_items(t, index, Masks::kNone);
  if (!to) return false;
  if (number && to->positions.empty()) {
    lazy::check_no_repeats(to->view);
    to->view.fill_(*number);
    return true;
  }
  if ((number && lazy::batch_depth() > 0) || (!to->positions.empty() && lazy::has_repeats(to->view))) return false;
  Tensor v = number ? full({}, *number, t.dtype()).to(t.device()) : tensor_in(value);
  while (v.dim() > rank_of(*to) && v.size(0) == 1) v = select(v, 0, 0);  // as in torch
  if (!to->positions.empty()) {
    v = index_put_at(to->view, to->axis, v.dtype() == t.dtype() ? v : v.to(t.dtype()), false, to->positions);
  }
  to->view.copy_(v);
  return true;
}

/// The same at a mask, which reads nothing: how many elements it names need not be known.
bool set_masked(const Tensor& t, PyObject* index, PyObject* value) {
  if (Py_TYPE(index) != tensor_type()) return false;
  const Tensor& mask = tensor_in(index);
  if (!is_mask(t, index) || !covers(mask, t, 0) || lazy::batch_depth() > 0 || lazy::has_repeats(t)) return false;
  const std::optional<Scalar> number = plain_number(value);
  if (!number && (Py_TYPE(value) != tensor_type() || tensor_in(value).device() != t.device())) return false;
  const Tensor v = number ? full({}, *number, t.dtype()).to(t.device()) : tensor_in(value);
  Tensor to = t;
  to.copy_(masked_put(t, mask, 0, v.dtype() == t.dtype() ? v : v.to(t.dtype())));
  return true;
}

/// smolder._indexing's function of that name.
PyObject* in_python(const char* name, PyObject* self, PyObject* index, PyObject* value) {
  static PyObject* const module = PyImport_ImportModule("smolder._indexing");
  if (!module) return nullptr;
  return PyObject_CallMethod(module, name, value ? "OOO" : "OO", self, index, value);
}

}  // namespace

std::optional<int64_t> known_number(const Tensor& t) {
  lazy::TensorImpl* const impl = t.impl();
  if (lazy::any_former()) lazy::follow_storage(impl);
  const auto is_known = [](const lazy::Value& v) { return v.buffer && !v.pending && !v.external && !v.batched; };
  const lazy::TensorImpl* const owner = lazy::owner_of(t.impl());
  if (owner->steps) lazy::refresh(impl);  // it was picked
  const bool is_integer = t.dtype() == DType::kInt64 || t.dtype() == DType::kInt32;
  if (!is_integer || t.dim() > 0 || t.device().type != DeviceType::kCPU || lazy::Capture::current() ||
      impl->value->batched || impl->value->external || !is_known(*owner->value)) {
    return std::nullopt;
  }
  const int64_t at = owner == impl ? 0 : lazy::offset_in_value(t);
  const std::byte* const place = static_cast<const std::byte*>(owner->value->data()) + at * itemsize(t.dtype());
  if (t.dtype() == DType::kInt64) return *reinterpret_cast<const int64_t*>(place);
  return *reinterpret_cast<const int32_t*>(place);
}

Tensor pick(const Tensor& from, int64_t axis, const std::vector<Tensor>& positions) {
  const bool is_view =
      lazy::batch_depth() == 0 && std::ranges::all_of(positions, [](const Tensor& p) { return p.dim() == 0; });
  if (is_view && lazy::is_external(from) && !lazy::Capture::current()) {  // which is read now, and so are they
    Tensor out = from;
    for (const Tensor& p : positions) out = select(out, axis, p.item<int64_t>());
    return out;
  }
  Tensor out = own(index_at(from, axis, positions));
  if (is_view) lazy::write_back(out, from, axis, positions);
  return out;
}

PyObject* get_item(PyObject* self, PyObject* index) {
  if (modes_are_on() || is_sparse(self)) [[unlikely]]
    return in_python("get", self, index, nullptr);
  try {
    const Tensor& t = tensor_in(self);
    std::optional<Selection> selected = select_items(t, index, Masks::kRead);
    if (!selected) return in_python("get", self, index, nullptr);
    const Tensor& view = selected->view;
    if (!selected->positions.empty()) {
      return wrap(pick(view, selected->axis, selected->positions));
    }
    return wrap(view.impl() == t.impl() ? reshape(t, t.shape()) : Tensor(view));
  } catch (nb::python_error& e) {
    e.restore();
    return nullptr;
  } catch (...) {
    return raise_current();
  }
}

int set_item(PyObject* self, PyObject* index, PyObject* value) {
  if (!value) {
    PyErr_SetString(PyExc_TypeError, "Tensor does not support deleting items");
    return -1;
  }
  try {
    if (!modes_are_on() && !is_sparse(self) && !is_wrapper_type(Py_TYPE(self))) {
      const Tensor& t = tensor_in(self);
      if (set_masked(t, index, value) || set_plain(t, index, value)) return 0;
    }
  } catch (nb::python_error& e) {
    e.restore();
    return -1;
  } catch (...) {
    raise_current();
    return -1;
  }
  const nb::object done = nb::steal(in_python("set", self, index, value));
  return done.is_valid() ? 0 : -1;
}

}  // namespace smolder::python
