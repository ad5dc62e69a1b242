#include "src/tensor.h"

#include <nanobind/ndarray.h>

#include <cstring>

#include "smolder/core/counters.h"
#include "smolder/core/half.h"
#include "smolder/lazy/op_support.h"
#include "smolder/lazy/ops.h"
#include "smolder/lazy/strides.h"
#include "smolder/lazy/view.h"
#include "src/slots.h"
#include "src/without_gil.h"

namespace smolder::python {
namespace {

nb::dlpack::dtype numpy_dtype(DType t) {
  switch (t) {
    case DType::kBool:
      return nb::dtype<bool>();
    case DType::kUInt8:
      return nb::dtype<uint8_t>();
    case DType::kInt32:
      return nb::dtype<int32_t>();
    case DType::kInt64:
      return nb::dtype<int64_t>();
    case DType::kFloat16:
      return {static_cast<uint8_t>(nb::dlpack::dtype_code::Float), 16, 1};
    case DType::kFloat64:
      return nb::dtype<double>();
    default:
      return nb::dtype<float>();
  }
}

/// A copy as a NumPy array; NumPy has no bfloat16, which becomes float32 (exactly).
nb::object to_numpy(const Tensor& t) {
  BufferRef buffer;
  {
    const WithoutGil nogil;
    buffer = t.materialize("numpy");
  }
  const int64_t n = t.numel();
  record_copy("numpy", resolve_source(capture_source()), n * itemsize(t.dtype()));
  const bool widen = t.dtype() == DType::kBFloat16;
  auto* const copy = new char[std::max<size_t>(1, n * (widen ? 4 : itemsize(t.dtype())))];
  if (widen) {
    const auto* const from = static_cast<const BFloat16*>(buffer->data());
    for (int64_t i = 0; i < n; ++i) reinterpret_cast<float*>(copy)[i] = to_float(from[i]);
  } else if (n) {
    std::memcpy(copy, buffer->data(), n * itemsize(t.dtype()));
  }
  const nb::capsule owner(copy, [](void* p) noexcept { delete[] static_cast<char*>(p); });
  const Dims shape = t.shape();
  size_t extents[kMaxRank];
  for (int i = 0; i < shape.size(); ++i) extents[i] = shape[i];
  const nb::object array =
      nb::cast(nb::ndarray<nb::numpy>(copy, shape.size(), extents, owner, nullptr, numpy_dtype(t.dtype())));
  // Of NumPy's two types of 64 bits it comes as the one that is not its default, and would be printed with its name.
  return t.dtype() == DType::kInt64 ? array.attr("view")("int64") : array;
}

std::optional<DType> dtype_of(nb::dlpack::dtype d) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const DType t = static_cast<DType>(i);
    if (t != DType::kBFloat16 && numpy_dtype(t) == d) return t;
  }
  return std::nullopt;
}

/// A tensor with a copy of an array's elements.
Tensor from_numpy_copy(const nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>& a) {
  const auto dtype = dtype_of(a.dtype());
  SMOLDER_CHECK(dtype, TypeError,
                "can't convert an array of this type; supported: float64, float32, float16, int64, int32, ",
                "uint8 and bool; use array.astype(...) first");
  Dims shape;
  for (size_t i = 0; i < a.ndim(); ++i) shape.push_back(static_cast<int64_t>(a.shape(i)));
  return Tensor::from_data(a.data(), shape, *dtype);
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
      .def_prop_ro("is_floating_point", [](PyDType d) { return is_floating(d.value); });
  for (int i = 0; i < kNumDTypes; ++i) {
    const DType t = static_cast<DType>(i);
    m.attr(std::string(name(t)).c_str()) = nb::cast(PyDType{t});
  }
  m.def(
      "dtype_named",
      [](const std::string& text) {
        const auto t = parse_dtype(text);
        SMOLDER_CHECK(t, ValueError, "no dtype is called '", text, "'");
        return PyDType{*t};
      },
      nb::arg("name"), "The dtype called `name`.");
  m.def(
      "promote_types", [](PyDType a, PyDType b) { return PyDType{promote(a.value, b.value)}; }, nb::arg("a"),
      nb::arg("b"), "The dtype that values of both convert to.");

  nb::class_<Tensor> tensor(m, "Tensor", "An array that knows how it is computed; docs/ops.md lists its operations.",
                            nb::type_slots(tensor_slots()), nb::dynamic_attr(), nb::is_weak_referenceable());
  set_tensor_type(reinterpret_cast<PyTypeObject*>(tensor.ptr()));
  tensor.def(nb::init<const Tensor&>())
      .def_prop_ro("shape", [](const Tensor& t) { return t.shape(); })
      .def_prop_ro("dtype", [](const Tensor& t) { return PyDType{t.dtype()}; })
      .def("dim", &Tensor::dim)
      .def("numel", [](const Tensor& t) { return t.numel(); })
      .def("item",
           [](const Tensor& t) {
             const WithoutGil nogil;
             return t.item();
           })
      .def("_to_numpy", &to_numpy)
      .def("detach", &Tensor::detach)
      .def(
          "requires_grad_", [](Tensor& t, bool on) -> Tensor { return t.requires_grad_(on); },
          nb::arg("requires_grad") = true)
      .def_prop_rw(
          "requires_grad",
          [](const Tensor& t) {
            lazy::refresh(t.impl());
            return t.requires_grad();
          },
          [](Tensor& t, bool on) { t.requires_grad_(on); })
      .def_prop_ro("is_leaf", &Tensor::is_leaf)
      .def("_detach_", &Tensor::detach_)
      .def("_set_data", [](const Tensor& t, const Tensor& data) { lazy::set_data(t, data); })
      .def("_strides", [](const Tensor& t) { return lazy::strides(t); })
      .def(
          "is_contiguous", [](const Tensor& t) { return lazy::is_contiguous(t); },
          "Whether the elements are as in row-major memory, views being windows on their base.")
      .def_prop_ro("_version", [](const Tensor& t) { return lazy::version(t); })
      .def("_is_same", [](const Tensor& a, const Tensor& b) { return a.impl() == b.impl(); });
  m.def("from_numpy_copy", &from_numpy_copy);
  m.def("_check_fits", [](int64_t v, PyDType t) { lazy::check_fits(Scalar(v), t.value); });
  m.def("_check_fits", [](double v, PyDType t) { lazy::check_fits(Scalar(v), t.value); });
  return tensor;
}

}  // namespace smolder::python
