// Makes tensors of Python's numbers: an int, a float, a bool, or lists of these of one shape, without NumPy. And takes
// tensors where functions expect numbers.
#include <vector>

#include "smolder/lazy/default_dtype.h"
#include "smolder/lazy/op_support.h"
#include "smolder/lazy/ops.h"
#include "smolder/lazy/tensor.h"
#include "src/casters.h"
#include "src/dtype.h"
#include "src/tensor.h"

namespace smolder::python {
namespace {

/// The kinds of numbers, in the order in which they promote.
enum class Kind : uint8_t { kBool, kInt, kFloat };

/// Numbers of nested lists, in order. It runs no code of Python, so that the lists stay what they are.
class Numbers {
 public:
  /// False: NumPy has to look at the data, or to say what is wrong with it.
  bool read(PyObject* data) {
    for (PyObject* at = data; PyList_CheckExact(at) || PyTuple_CheckExact(at);) {
      if (shape_.size() == kMaxRank) return false;
      const Py_ssize_t n = PySequence_Fast_GET_SIZE(at);
      shape_.push_back(n);
      if (n == 0) break;
      at = PySequence_Fast_ITEMS(at)[0];
    }
    return read_level(data, 0);
  }
  /// Nothing where a cast would have to look at what fits.
  std::optional<Tensor> made(std::optional<DType> asked) const {
    const DType natural = !shape_.empty() && numbers_.empty() ? lazy::default_dtype() : dtype_of_kind();
    switch (asked.value_or(natural)) {
      case DType::kFloat32:
        return filled<float>(DType::kFloat32);
      case DType::kFloat64:
        return filled<double>(DType::kFloat64);
      case DType::kInt64:
        return kind_ != Kind::kFloat ? std::optional(filled<int64_t>(DType::kInt64)) : std::nullopt;
      case DType::kBool:
        return kind_ == Kind::kBool ? std::optional(filled<bool>(DType::kBool)) : std::nullopt;
      default:
        return std::nullopt;
    }
  }

 private:
  union Number {
    int64_t whole;
    double real;
  };

  DType dtype_of_kind() const {
    return kind_ == Kind::kFloat ? lazy::default_dtype() : kind_ == Kind::kInt ? DType::kInt64 : DType::kBool;
  }

  bool read_level(PyObject* at, int depth) {
    if (depth == shape_.size()) return read_number(at);
    if (!(PyList_CheckExact(at) || PyTuple_CheckExact(at)) || PySequence_Fast_GET_SIZE(at) != shape_[depth]) {
      return false;
    }
    PyObject** const items = PySequence_Fast_ITEMS(at);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(at); ++i) {
      if (!read_level(items[i], depth + 1)) return false;
    }
    return true;
  }

  bool read_number(PyObject* o) {
    if (PyFloat_CheckExact(o)) {
      if (kind_ != Kind::kFloat) become_real();
      numbers_.push_back({.real = PyFloat_AS_DOUBLE(o)});
      return true;
    }
    if (!PyLong_CheckExact(o) && !PyBool_Check(o)) return false;
    int overflow = 0;
    const int64_t value = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow) return false;
    if (kind_ == Kind::kBool && !PyBool_Check(o)) kind_ = Kind::kInt;
    if (kind_ == Kind::kFloat) {
      numbers_.push_back({.real = static_cast<double>(value)});
    } else {
      numbers_.push_back({.whole = value});
    }
    return true;
  }

  void become_real() {
    for (Number& n : numbers_) n.real = static_cast<double>(n.whole);
    kind_ = Kind::kFloat;
  }

  template <class T>
  Tensor filled(DType dtype) const {
    // std::vector<bool> has no array of its elements.
    std::vector<std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>> elements;
    elements.reserve(numbers_.size());
    for (const Number& n : numbers_) {
      elements.push_back(kind_ == Kind::kFloat ? static_cast<T>(n.real) : static_cast<T>(n.whole));
    }
    return Tensor::from_data(elements.data(), shape_, dtype);
  }

  Dims shape_;
  Kind kind_ = Kind::kBool;
  std::vector<Number> numbers_;
};

}  // namespace

void bind_numbers(nb::module_& m) {
  m.def(
      "_from_numbers",
      [](nb::handle data, std::optional<PyDType> dtype) -> std::optional<Tensor> {
        Numbers numbers;
        if (!numbers.read(data.ptr())) return std::nullopt;
        return numbers.made(dtype ? std::optional(dtype->value) : std::nullopt);
      },
      nb::arg("data").none(), nb::arg("dtype") = nb::none(),
      "The tensor of a number or of nested lists of numbers; None where only NumPy can say what it is.");
}

// -- factors that are tensors: add(x, y, alpha=t) and its like record t as an operand, for as a number it would have to
// be read, which ends the step. What tensors have in place, smolder._other_forms does.

namespace {

/// The dtype in which elements are computed: that of the result, or as floats where that is a half.
struct Work {
  DType result, type;

  Work(const char* function, const char* name, const Tensor& factor, DType result_type)
      : result(result_type), type(is_half(result) ? DType::kFloat32 : result) {
    SMOLDER_CHECK(factor.dim() == 0 && !factor.requires_grad(), TypeError, function, "(): argument '", name,
                  "' must be Number, not Tensor");
    const bool whole = category(factor.dtype()) != Category::kFloat;
    lazy::check_factor(function, name,
                       factor.dtype() == DType::kBool ? Scalar(true)
                       : whole                        ? Scalar(1)
                                                      : Scalar(1.0),
                       result);
  }
  Tensor operator()(const Tensor& t) const { return t.to(type); }
};

template <int Sign>
Tensor add_scaled(const Tensor& self, const Tensor& other, const Tensor& alpha) {
  const Work in(Sign > 0 ? "add" : "sub", "alpha", alpha, lazy::result_type({self, other}));
  const Tensor scaled = in(other)*in(alpha);
  return (Sign > 0 ? in(self) + scaled : in(self)-scaled).to(in.result);
}

Tensor addcmul_scaled(const Tensor& self, const Tensor& a, const Tensor& b, const Tensor& value) {
  const Work in("addcmul", "value", value, lazy::result_type({self, a, b}));
  return (in(self) + in(value)*in(a)*in(b)).to(in.result);
}

Tensor addcdiv_scaled(const Tensor& self, const Tensor& a, const Tensor& b, const Tensor& value) {
  const Work in("addcdiv", "value", value, lazy::result_type({self, a, b}));
  if (!is_differentiable(in.result)) return addcdiv(self, a, b);  // which says that integers are not divided so
  return (in(self) + in(value)*in(a) / in(b)).to(in.result);
}

void define_sum(nb::module_& m, nb::class_<Tensor>& tensor, const char* name, auto&& f) {
  m.def(name, f, nb::arg("input"), nb::arg("other"), nb::kw_only(), nb::arg("alpha"));
  tensor.def(name, f, nb::arg("other"), nb::kw_only(), nb::arg("alpha"));
}

void define_product(nb::module_& m, nb::class_<Tensor>& tensor, const char* name, auto&& f) {
  m.def(name, f, nb::arg("input"), nb::arg("tensor1"), nb::arg("tensor2"), nb::kw_only(), nb::arg("value"));
  tensor.def(name, f, nb::arg("tensor1"), nb::arg("tensor2"), nb::kw_only(), nb::arg("value"));
}

}  // namespace

void bind_factors(nb::module_& m, nb::class_<Tensor>& tensor) {
  define_sum(m, tensor, "add", &add_scaled<1>);
  for (const char* name : {"sub", "subtract"}) define_sum(m, tensor, name, &add_scaled<-1>);
  define_product(m, tensor, "addcmul", &addcmul_scaled);
  define_product(m, tensor, "addcdiv", &addcdiv_scaled);
}

}  // namespace smolder::python
