#include "src/tensor.h"
#include "src/indexing.h"

#include "smolder/autograd/sparse.h"
#include "smolder/lazy/batch.h"
#include "smolder/lazy/default_dtype.h"
#include "smolder/lazy/op_support.h"
#include "smolder/lazy/ops.h"
#include "smolder/lazy/storage.h"
#include "smolder/lazy/strides.h"
#include "smolder/lazy/view.h"
#include "src/dtype.h"
#include "src/indexing.h"
#include "src/slots.h"
#include "src/without_gil.h"

namespace smolder::python {
namespace {

/// As torch: an element of a batch gets a history from transforms alone.
void check_no_transform(const Tensor& t, bool on) {
  SMOLDER_CHECK(
      !on || !lazy::batched(t.impl()), RuntimeError,
      "You are attempting to call Tensor.requires_grad_() (or perhaps using torch.autograd.functional.* APIs) "
      "inside of a function being transformed by a functorch transform. This is unsupported, please attempt to "
      "use the functorch transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call requires_grad_() outside "
      "of a function being transformed instead.");
}

/// The only element of a complex tensor.
nb::object complex_item(const Tensor& t) {
  SMOLDER_CHECK(t.numel() == 1, RuntimeError, "a Tensor with ", t.numel(), " elements cannot be converted to Scalar");
  const std::vector<double> parts = [&] {
    const WithoutGil nogil;
    return view_as_real(t).to_vector<double>();
  }();
  return nb::steal(PyComplex_FromDoubles(parts[0], parts[1]));
}

PyTypeObject* tensor_class = nullptr;

/// Are several of a class's bases tensors, and all others plain Python?
bool has_several_tensors(PyObject* bases) {
  int tensors = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bases); ++i) {
    auto* const base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(bases, i));
    const bool is_bound = Py_TYPE(Py_TYPE(base)) == Py_TYPE(Py_TYPE(tensor_class));  // a class from C++
    if (is_bound && !PyType_IsSubtype(base, tensor_class)) return false;
    tensors += is_bound;
  }
  return tensors > 1;
}

/// Calls f while a class of several tensors seems to have one base, that of its layout.
int with_one_base(PyObject* self, auto f) {
  auto* const type = reinterpret_cast<PyTypeObject*>(self);
  PyObject* const all = type->tp_bases;
  if (!all || !has_several_tensors(all)) return f();
  const nb::object one = nb::steal(PyTuple_Pack(1, reinterpret_cast<PyObject*>(type->tp_base)));
  if (!one.is_valid()) return -1;
  type->tp_bases = one.ptr();
  const int failed = f();
  type->tp_bases = all;
  return failed;
}

/// A class may have several tensor classes among its bases, as `class P(MyTensor, Parameter)` has. Nanobind allows one,
/// of which it takes the C++ type that all of them share, when the class is made or first given an attribute.
void allow_several_bases(PyTypeObject* tensor) {
  tensor_class = tensor;
  PyTypeObject* const metaclass = Py_TYPE(tensor);
  static initproc init = metaclass->tp_init;
  static setattrofunc set = metaclass->tp_setattro;
  metaclass->tp_init = [](PyObject* self, PyObject* args, PyObject* keywords) {
    return with_one_base(self, [&] { return init(self, args, keywords); });
  };
  metaclass->tp_setattro = [](PyObject* self, PyObject* name, PyObject* value) {
    return with_one_base(self, [&] { return set(self, name, value); });
  };
}

}  // namespace

nb::class_<Tensor> bind_tensor(nb::module_& m) {
  nb::class_<PyDType>(m, "dtype", "The type of a tensor's elements.")
      .def("__repr__", [](PyDType d) { return "smolder." + std::string(name(d.value)); })
      .def(
          "__eq__",
          [](PyDType a, nb::handle b) { return nb::isinstance<PyDType>(b) && nb::cast<PyDType>(b).value == a.value; },
          nb::arg("other").none())
      .def("__hash__", [](PyDType d) { return static_cast<int>(d.value); })
      .def("__reduce__",
           [](PyDType d) {
             return nb::make_tuple(nb::module_::import_("smolder._core").attr("dtype_named"),
                                   nb::make_tuple(std::string(name(d.value))));
           })
      .def_prop_ro("itemsize", [](PyDType d) { return itemsize(d.value); })
      .def_prop_ro("is_floating_point", [](PyDType d) { return is_floating(d.value); })
      .def_prop_ro("is_complex", [](PyDType d) { return is_complex(d.value); })
      .def_prop_ro("is_signed", [](PyDType d) { return d.value != DType::kBool && d.value != DType::kUInt8; })
      .def(
          "to_real", [](PyDType d) { return the_dtype(part_type(d.value)); }, nb::rv_policy::reference,
          "The dtype of the parts of a complex one; else itself.")
      .def(
          "to_complex", [](PyDType d) { return the_dtype(complex_type(d.value)); }, nb::rv_policy::reference,
          "The complex dtype whose parts hold values of this one.");
  for (int i = 0; i < kNumTensorDTypes; ++i) {
    const DType t = static_cast<DType>(i);
    m.attr(std::string(name(t)).c_str()) = nb::cast(the_dtype(t), nb::rv_policy::reference);
  }
  m.def(
      "dtype_named",
      [](const std::string& text) {
        const auto t = parse_dtype(text);
        SMOLDER_CHECK(t, ValueError, "no dtype is called '", text, "'");
        return the_dtype(*t);
      },
      nb::arg("name"), nb::rv_policy::reference, "The dtype called `name`.");
  m.def(
      "promote_types", [](PyDType a, PyDType b) { return the_dtype(promote(a.value, b.value)); }, nb::arg("type1"),
      nb::arg("type2"), nb::rv_policy::reference, "The dtype that values of both convert to.");
  m.def("_default_dtype", [] { return the_dtype(lazy::default_dtype()); }, nb::rv_policy::reference);
  m.def("_set_default_dtype", [](PyDType d) { lazy::set_default_dtype(d.value); });

  nb::class_<Tensor> tensor(m, "Tensor", "An array that knows how it is computed; docs/ops.md lists its operations.",
                            nb::type_slots(tensor_slots()), nb::dynamic_attr(), nb::is_weak_referenceable());
  set_tensor_type(reinterpret_cast<PyTypeObject*>(tensor.ptr()));
  allow_several_bases(reinterpret_cast<PyTypeObject*>(tensor.ptr()));
  tensor
      .def("__init__",
           [](Tensor* self, const Tensor& other) {
             SMOLDER_CHECK(!other.defined() || !autograd::sparse_parts(other), NotImplementedError,
                           "a sparse tensor as one of another class is not supported: its to_dense() is a strided one");
             new (self) Tensor(other);
           })
      .def("__init__",
           [](Tensor* self, const nb::args& args, const nb::kwargs& options) {
             // Tensor(2, 3) and Tensor([2, 3]): rare, and Python's to make.
             const nb::object made = nb::module_::import_("smolder._layouts").attr("constructed")(*args, **options);
             new (self) Tensor(nb::cast<Tensor>(made));
           })
      .def_static("_blank", [](nb::handle cls) { return nb::inst_alloc(cls); })  // that __init__ is to make
      .def("_is_made", [](nb::handle self) { return nb::inst_ready(self); })
      .def_prop_ro("shape", [](const Tensor& t) { return t.shape(); })
      .def_prop_ro(
          "dtype", [](const Tensor& t) { return the_dtype(t.dtype()); }, nb::rv_policy::reference)
      .def("dim", &Tensor::dim)
      .def("numel", [](const Tensor& t) { return t.numel(); })
      .def("item",
           [](const Tensor& t) -> nb::object {
             if (t.defined() && is_complex(t.dtype())) return complex_item(t);
             const Scalar number = [&] {
               const WithoutGil nogil;
               return t.item();
             }();
             return nb::cast(number);
           })
      .def("detach", &Tensor::detach)
      .def(  // before the overload of sizes, which takes what it is given for one
          "view",
          [](nb::handle self, nb::handle_t<PyDType> dtype) {  // of Python's too, which have no value here
            return nb::module_::import_("smolder._members").attr("view_as")(self, dtype);
          },
          nb::arg("dtype"))
      .def(
          "requires_grad_",
          [](Tensor& t, bool on) -> Tensor {
            check_no_transform(t, on);
            return t.requires_grad_(on);
          },
          nb::arg("requires_grad") = true)
      .def_prop_rw(
          "requires_grad",
          [](const Tensor& t) {
            lazy::refresh(t.impl());
            return t.requires_grad();
          },
          [](Tensor& t, nb::handle on) {
            SMOLDER_CHECK(PyBool_Check(on.ptr()), RuntimeError, "requires_grad must be a bool");
            check_no_transform(t, on.ptr() == Py_True);
            t.requires_grad_(on.ptr() == Py_True);
          })
      .def_prop_ro("is_leaf", &Tensor::is_leaf)
      .def_prop_ro("_base",
                   [](const Tensor& t) -> std::optional<Tensor> {
                     lazy::TensorImpl* const impl = t.impl();
                     if (!impl->base || impl->detached) return std::nullopt;
                     return Tensor(impl->base);
                   })
      .def("_known_number", &known_number)
      .def("_pick", &pick)
      // For t_() and its like: the object is another view of the same storage from then on.
      .def("_become", [](Tensor& self, const Tensor& other) { self = other; })
      .def("_detach_", &Tensor::detach_)
      .def("_set_data", [](const Tensor& t, const Tensor& data) { lazy::set_data(t, data); })
      .def(
          "_in_order",
          [](const Tensor& t, const std::vector<int64_t>& order) {
            return lazy::clone_in_order(t, Dims(std::span<const int64_t>(order)));
          },
          nb::arg("order"))
      .def(
          "_lay_out_as", [](const Tensor& t, const Tensor& like) { return lazy::lay_out_as(t, like); }, nb::arg("like"))
      .def("_strides", [](const Tensor& t) { return lazy::strides(t); })
      .def(
          "storage_offset", [](const Tensor& t) { return lazy::layout(t).offset; },
          "Where the first element lies, in elements from the start of the storage.")
      .def(
          "is_contiguous", [](const Tensor& t) { return lazy::is_contiguous(t); },
          "Whether the elements are as in row-major memory, views being windows on their base.")
      .def_prop_ro("_version",
                   [](const Tensor& t) {
                     SMOLDER_CHECK(!t.impl()->inference, RuntimeError,
                                   "Inference tensors do not track version counter.");
                     return lazy::version(t);
                   })
      .def(
          "is_inference", [](const Tensor& t) { return t.impl()->inference; }, "Whether it was made in inference mode.")
      .def("_is_same", [](const Tensor& a, const Tensor& b) { return a.impl() == b.impl(); });
  bind_memory(m, tensor);
  bind_devices(m, tensor);
  m.def("_check_fits", [](int64_t v, PyDType t) { lazy::check_fits(Scalar(v), t.value); });
  m.def("_check_fits", [](double v, PyDType t) { lazy::check_fits(Scalar(v), t.value); });
  return tensor;
}

}  // namespace smolder::python
