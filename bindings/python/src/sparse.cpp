#include "src/sparse.h"

#include "smolder/autograd/sparse.h"
#include "smolder/lazy/capture.h"
#include "smolder/lazy/ops.h"
#include "smolder/lazy/record.h"
#include "smolder/lazy/storage.h"
#include "smolder/lazy/view.h"
#include "smolder/lazy/wrapper.h"
#include "src/call_errors.h"
#include "src/slots.h"
#include "src/tensor.h"
#include "src/wrappers.h"

namespace smolder::python {
namespace {

using autograd::SparseLayout;
using autograd::SparseParts;

PyTypeObject* g_sparse_type = nullptr;  ///< lives as long as the process; the GIL guards it

nb::handle sparse_class() {
  if (!g_sparse_type) nb::module_::import_("smolder._sparse");  // which sets it
  return nb::handle(reinterpret_cast<PyObject*>(g_sparse_type));
}

nb::object object_on(Tensor handle) {
  nb::object out = nb::inst_alloc(sparse_class());
  new (nb::inst_ptr<Tensor>(out)) Tensor(std::move(handle));
  nb::inst_mark_ready(out);
  return out;
}

/// Another handle with the storage of `t`, and its history unless none is wanted. Guards of recorded steps know no
/// places of values, so none is kept.
Tensor shared(const Tensor& t) {
  lazy::break_capture("a sparse tensor", capture_source());
  return lazy::grad_enabled() && t.requires_grad() ? reshape(t, t.shape()) : lazy::alias(t);
}

std::shared_ptr<SparseParts> parts_of(int layout, std::vector<Tensor> indices, const Dims& shape, bool coalesced) {
  return std::make_shared<SparseParts>(
      SparseParts{static_cast<SparseLayout>(layout), std::move(indices), shape, coalesced});
}

const SparseParts& parts_in(const Tensor& t, std::shared_ptr<const SparseParts>& keep) {
  keep = autograd::sparse_parts(t);
  SMOLDER_CHECK(keep, InternalError, "a tensor that is not sparse was taken for a sparse one");
  return *keep;
}

}  // namespace

bool is_sparse_type(PyTypeObject* type) { return type == g_sparse_type && g_sparse_type; }

bool is_sparse(PyObject* tensor) { return Py_TYPE(tensor) != tensor_type() && is_sparse_type(Py_TYPE(tensor)); }

nb::object object_for(const Tensor& t) {
  if (t.impl()->autograd && autograd::sparse_parts(t)) [[unlikely]]
    return object_on(t);
  if (lazy::wrapper(t.impl())) [[unlikely]]
    return wrapper_object(t);
  return nb::cast(t);
}

PyObject* sparse_in_place(const char* name, PyObject* self, PyObject* other) {
  PyObject* const module = PyImport_ImportModule("smolder._sparse");
  if (!module) return nullptr;
  PyObject* const out = PyObject_CallMethod(module, "in_place", "sOO", name, self, other);
  Py_DECREF(module);
  return out;
}

void bind_sparse(nb::module_& m) {
  m.def(
      "_set_sparse_class",
      [](nb::handle cls) {
        g_sparse_type = reinterpret_cast<PyTypeObject*>(cls.inc_ref().ptr());
        ask_class(g_sparse_type);
      },
      nb::arg("cls"), "Says which class sparse tensors are of; functions ask it first.");
  m.def(
      "_sparse_make",
      [](const Tensor& values, std::vector<Tensor> indices, const Dims& shape, int layout, bool coalesced) {
        Tensor handle = shared(values);
        autograd::mark_sparse(handle, parts_of(layout, std::move(indices), shape, coalesced));
        return object_on(std::move(handle));
      },
      nb::arg("values"), nb::arg("indices"), nb::arg("shape"), nb::arg("layout"), nb::arg("coalesced"),
      "A sparse tensor on the storage of values, with their history. Nothing is checked.");
  m.def(
      "_sparse_values", [](const Tensor& t) { return shared(t); }, nb::arg("x"),
      "The values of a sparse tensor as a tensor on the same storage, with its history.");
  m.def(
      "_sparse_parts",
      [](const Tensor& t) {
        std::shared_ptr<const SparseParts> keep;
        const SparseParts& parts = parts_in(t, keep);
        return nb::make_tuple(as_tuple(parts.indices), parts.shape, static_cast<int>(parts.layout), parts.coalesced);
      },
      nb::arg("x"), "(indices, shape, layout, coalesced) of a sparse tensor.");
  m.def(
      "_sparse_set",
      [](const Tensor& t, const Tensor& values, std::vector<Tensor> indices, const Dims& shape, int layout,
         bool coalesced) {
        lazy::set_data(t, values);
        autograd::mark_sparse(t, parts_of(layout, std::move(indices), shape, coalesced));
      },
      nb::arg("x"), nb::arg("values"), nb::arg("indices"), nb::arg("shape"), nb::arg("layout"), nb::arg("coalesced"),
      "Gives a sparse tensor other values at other places.");
}

}  // namespace smolder::python
