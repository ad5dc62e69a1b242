// Arithmetic on tensors through CPython's number slots: `a + b` goes straight to the recorder, with no
// argument parsing in between. Anything but tensors and numbers is left to Python (NotImplemented).
#include "src/slots.h"

#include <new>

#include "smolder/lazy/autocast.h"
#include "smolder/lazy/op_support.h"
#include "smolder/lazy/ops.h"
#include "smolder/lazy/step_undo.h"
#include "smolder/lazy/wrapper.h"
#include "src/distributed.h"
#include "src/indexing.h"
#include "src/sparse.h"
#include "src/tensor.h"
#include "src/user_ops.h"
#include "src/wrappers.h"

namespace smolder::python {
namespace {

PyTypeObject* g_tensor_type = nullptr;

bool is_tensor(PyObject* o) { return Py_TYPE(o) == g_tensor_type || PyType_IsSubtype(Py_TYPE(o), g_tensor_type); }

/// A tensor with a copy of a NumPy array's elements; undefined for anything else.
Tensor array_in(PyObject* o) {
  static PyObject* const array = nb::module_::import_("numpy").attr("ndarray").ptr();  // NumPy stays loaded
  const int is_array = PyObject_IsInstance(o, array);
  if (is_array < 0) nb::raise_python_error();
  if (!is_array) return {};
  return nb::cast<Tensor>(nb::module_::import_("smolder._core").attr("from_numpy_copy")(nb::handle(o)));
}

/// A tensor or number as an operand; false for anything else.
struct Argument {
  lazy::Operand operand = lazy::Operand::none();
  Tensor array;
  bool read(PyObject* o) {
    if (is_tensor(o)) {
      operand = lazy::Operand(tensor_in(o));
      return true;
    }
    if (PyComplex_Check(o)) [[unlikely]] {
      array = complex_of(o);
      operand = lazy::Operand(array);
      return true;
    }
    auto n = number_of(o);
    if (!n && !PyUnicode_Check(o)) n = foreign_number(o);
    if (n) operand = lazy::Operand(*n);
    return n.has_value();
  }
  /// NumPy arrays too.
  bool read_any(PyObject* o) {
    if (read(o)) return true;
    array = array_in(o);
    if (array.defined()) operand = lazy::Operand(array);
    return array.defined();
  }
};

/// As torch: `tensor + array` is a tensor, `array + tensor` is refused, and `array / tensor` is not. The last is
/// asked for by name here.
template <bool kArrayFirst, class F>
PyObject* of_two(PyObject* a, PyObject* b, F&& f) {
  if (is_sparse(a) || is_sparse(b)) [[unlikely]]
    Py_RETURN_NOTIMPLEMENTED;
  try {
    Argument x, y;
    if (!(kArrayFirst ? x.read_any(a) : x.read(a)) || !y.read_any(b)) Py_RETURN_NOTIMPLEMENTED;
    return wrap(f(x.operand, y.operand));
  } catch (nb::python_error& e) {
    e.restore();
    return nullptr;
  } catch (...) {
    return raise_current();
  }
}

/// Whether `number / tensor` is what torch makes of it, which autocast lists on CUDA: reciprocal(tensor) * number.
bool is_cast_reciprocal(const lazy::Operand& a, const lazy::Operand& b) {
  return lazy::autocasting() && a.kind() == lazy::Operand::kNumber && b.kind() == lazy::Operand::kTensor &&
         b.impl()->value->device == DeviceType::kCUDA;
}

template <ir::Op op>
PyObject* binary(PyObject* a, PyObject* b) {
  return of_two < op == ir::Op::kDiv > (a, b, [](const lazy::Operand& x, const lazy::Operand& y) {
                          if constexpr (op == ir::Op::kDiv) {
                            if (is_cast_reciprocal(x, y)) [[unlikely]]
                              return reciprocal(Tensor(y.impl())) * x.number();
                          }
                          if constexpr (op == ir::Op::kFloorDiv) return floor_divide(x, y);
                          if constexpr (op == ir::Op::kRemainder) return remainder(x, y);
                          const lazy::Operand operands[] = {x, y};
                          Tensor out;
                          lazy::record(op, operands, {}, &out);
                          return out;
                        });
}

template <ir::Op op>
PyObject* in_place(PyObject* self, PyObject* b) {
  if (is_sparse(b)) [[unlikely]]
    return sparse_in_place(ir::name(op).data(), self, b);
  try {
    Argument y;
    if (!y.read(b)) Py_RETURN_NOTIMPLEMENTED;
    lazy::Operand operands[] = {lazy::Operand(tensor_in(self)), y.operand};
    Tensor divisor;
    if constexpr (op == ir::Op::kFloorDiv || op == ir::Op::kRemainder) {
      divisor = lazy::divisor_of(operands[0], operands[1]);
      if (divisor.defined()) operands[1] = lazy::Operand(divisor);
    }
    if (lazy::wrapper(tensor_in(self).impl())) [[unlikely]]
      return PyObject_CallMethod(self, (std::string(ir::name(op)) + "_").c_str(), "O", b);
    lazy::record_inplace(op, operands, {}, tensor_in(self));
    return Py_NewRef(self);
  } catch (...) {
    return raise_current();
  }
}

template <ir::Op op>
PyObject* unary(PyObject* self) {
  try {
    const lazy::Operand operands[] = {lazy::Operand(tensor_in(self))};
    Tensor out;
    lazy::record(op, operands, {}, &out);
    return wrap(std::move(out));
  } catch (...) {
    return raise_current();
  }
}

PyObject* power(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  return of_two<false>(a, b, [](const lazy::Operand& x, const lazy::Operand& y) { return pow(x, y); });
}

PyObject* power_in_place(PyObject* self, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  if (is_sparse(b)) [[unlikely]]
    return sparse_in_place("pow", self, b);
  try {
    Argument y;
    if (!y.read(b)) Py_RETURN_NOTIMPLEMENTED;
    const lazy::NoAutocast plain;
    lazy::write_inplace("pow", tensor_in(self), pow(lazy::Operand(tensor_in(self)), y.operand));
    return Py_NewRef(self);
  } catch (...) {
    return raise_current();
  }
}

PyObject* matrix_product(PyObject* a, PyObject* b) {
  if (!is_tensor(a) || is_sparse(b)) Py_RETURN_NOTIMPLEMENTED;
  try {
    const Tensor other = is_tensor(b) ? tensor_in(b) : array_in(b);
    if (!other.defined()) Py_RETURN_NOTIMPLEMENTED;
    return wrap(matmul(tensor_in(a), other));
  } catch (nb::python_error& e) {
    e.restore();
    return nullptr;
  } catch (...) {
    return raise_current();
  }
}

PyObject* invert(PyObject* self) {
  if (is_floating(tensor_in(self).dtype())) {
    PyErr_Format(PyExc_TypeError, "~ (operator.invert) is only implemented on integer and Boolean-type tensors, got %s",
                 std::string(name(tensor_in(self).dtype())).c_str());
    return nullptr;
  }
  return tensor_in(self).dtype() == DType::kBool ? unary<ir::Op::kLogicalNot>(self) : unary<ir::Op::kBitwiseNot>(self);
}

PyObject* positive(PyObject* self) { return Py_NewRef(self); }

PyObject* compare(PyObject* a, PyObject* b, int how) {
  switch (how) {
    case Py_LT:
      return binary<ir::Op::kLt>(a, b);
    case Py_LE:
      return binary<ir::Op::kLe>(a, b);
    case Py_EQ:
      return binary<ir::Op::kEq>(a, b);
    case Py_NE:
      return binary<ir::Op::kNe>(a, b);
    case Py_GT:
      return binary<ir::Op::kGt>(a, b);
    default:
      return binary<ir::Op::kGe>(a, b);
  }
}

/// Identity: equal tensors are not the same key.
Py_hash_t hash(PyObject* self) {
  return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(tensor_in(self).impl()) >> 4);
}

/// The buffer protocol: that of an array in the tensor's memory.
int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  PyObject* const array = PyObject_CallMethod(self, "numpy", nullptr);
  if (!array) {
    PyErr_Clear();
    PyErr_SetString(PyExc_BufferError,
                    "this tensor has no buffer: it requires grad, or is of a dtype that NumPy has not");
    return -1;
  }
  const int result = PyObject_GetBuffer(array, view, flags);  // holds the array
  Py_DECREF(array);
  return result;
}

}  // namespace

PyObject* wrap(Tensor&& t) {
  if (lazy::wrapper(t.impl())) [[unlikely]]
    return wrapper_object(t).release().ptr();
  nb::object out = nb::inst_alloc(nb::handle(reinterpret_cast<PyObject*>(g_tensor_type)));
  new (nb::inst_ptr<Tensor>(out)) Tensor(std::move(t));
  nb::inst_mark_ready(out);
  return out.release().ptr();
}

PyObject* out_of_memory_type() {
  static PyObject* const type = [] {
    PyObject* const bases = PyTuple_Pack(2, PyExc_RuntimeError, PyExc_MemoryError);
    PyObject* const made = PyErr_NewExceptionWithDoc("smolder.OutOfMemoryError",
                                                     "Raised when memory of a device ran out.", bases, nullptr);
    Py_XDECREF(bases);
    return made;
  }();
  return type;
}

PyObject* raise_current() {
  try {
    throw;
  } catch (const Error& e) {
    set_python_error(e);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
  return nullptr;
}

void set_python_error(const Error& e) {
  lazy::StepUndo::settle();
  if (const auto* const own = dynamic_cast<const PythonError*>(&e)) return restore(own->error());
  if (const auto* const stop = dynamic_cast<const PythonInterrupt*>(&e)) return restore(stop->error());
  PyObject* type =
      dynamic_cast<const OutOfMemoryError*>(&e) ? out_of_memory_type() : distributed_error_type(e.python_type());
  if (!type) type = PyDict_GetItemString(PyEval_GetBuiltins(), e.python_type());  // borrowed
  const std::string where = resolve_source(capture_source());
  const std::string text = where.empty() ? e.what() : std::string(e.what()) + "\n  at " + where;
  PyErr_SetString(type ? type : PyExc_RuntimeError, text.c_str());
}

PyType_Slot* tensor_slots() {
#define SLOT(id, f) {id, reinterpret_cast<void*>(f)}
  static PyType_Slot slots[] = {SLOT(Py_nb_add, binary<ir::Op::kAdd>),
                                SLOT(Py_nb_subtract, binary<ir::Op::kSub>),
                                SLOT(Py_bf_getbuffer, get_buffer),
                                SLOT(Py_nb_multiply, binary<ir::Op::kMul>),
                                SLOT(Py_nb_true_divide, binary<ir::Op::kDiv>),
                                SLOT(Py_nb_floor_divide, binary<ir::Op::kFloorDiv>),
                                SLOT(Py_nb_remainder, binary<ir::Op::kRemainder>),
                                SLOT(Py_nb_power, power),
                                SLOT(Py_nb_matrix_multiply, matrix_product),
                                SLOT(Py_nb_and, binary<ir::Op::kBitwiseAnd>),
                                SLOT(Py_nb_or, binary<ir::Op::kBitwiseOr>),
                                SLOT(Py_nb_xor, binary<ir::Op::kBitwiseXor>),
                                SLOT(Py_nb_lshift, binary<ir::Op::kShl>),
                                SLOT(Py_nb_rshift, binary<ir::Op::kShr>),
                                SLOT(Py_nb_negative, unary<ir::Op::kNeg>),
                                SLOT(Py_nb_absolute, unary<ir::Op::kAbs>),
                                SLOT(Py_nb_positive, positive),
                                SLOT(Py_nb_invert, invert),
                                SLOT(Py_nb_inplace_add, in_place<ir::Op::kAdd>),
                                SLOT(Py_nb_inplace_subtract, in_place<ir::Op::kSub>),
                                SLOT(Py_nb_inplace_multiply, in_place<ir::Op::kMul>),
                                SLOT(Py_nb_inplace_true_divide, in_place<ir::Op::kDiv>),
                                SLOT(Py_nb_inplace_floor_divide, in_place<ir::Op::kFloorDiv>),
                                SLOT(Py_nb_inplace_remainder, in_place<ir::Op::kRemainder>),
                                SLOT(Py_nb_inplace_power, power_in_place),
                                SLOT(Py_nb_inplace_and, in_place<ir::Op::kBitwiseAnd>),
                                SLOT(Py_nb_inplace_or, in_place<ir::Op::kBitwiseOr>),
                                SLOT(Py_nb_inplace_xor, in_place<ir::Op::kBitwiseXor>),
                                SLOT(Py_nb_inplace_lshift, in_place<ir::Op::kShl>),
                                SLOT(Py_nb_inplace_rshift, in_place<ir::Op::kShr>),
                                SLOT(Py_tp_richcompare, compare),
                                SLOT(Py_tp_hash, hash),
                                SLOT(Py_mp_subscript, get_item),
                                SLOT(Py_mp_ass_subscript, set_item),
                                {0, nullptr}};
#undef SLOT
  return slots;
}

void set_tensor_type(PyTypeObject* type) { g_tensor_type = type; }

PyTypeObject* tensor_type() { return g_tensor_type; }

}  // namespace smolder::python
