// Memory shared with NumPy, and with whatever speaks DLPack: arrays of tensors and tensors of arrays.
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <mutex>
#include <vector>

#include "smolder/core/counters.h"
#include "smolder/core/cuda/driver.h"
#include "smolder/core/cuda/queue.h"
#include "smolder/core/fork.h"
#include "smolder/core/half.h"
#include "smolder/core/profile.h"
#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/storage.h"
#include "src/tensor.h"
#include "src/without_gil.h"

namespace smolder::python {
namespace {

using AnyArray = nb::ndarray<nb::ro>;

nb::dlpack::dtype array_dtype(DType t) {
  const auto made = [](nb::dlpack::dtype_code code, uint8_t bits) {
    return nb::dlpack::dtype{static_cast<uint8_t>(code), bits, 1};
  };
  switch (t) {
    case DType::kBool:
      return nb::dtype<bool>();
    case DType::kUInt8:
      return nb::dtype<uint8_t>();
    case DType::kInt8:
      return nb::dtype<int8_t>();
    case DType::kInt16:
      return nb::dtype<int16_t>();
    case DType::kInt32:
      return nb::dtype<int32_t>();
    case DType::kInt64:
      return nb::dtype<int64_t>();
    case DType::kFloat16:
      return made(nb::dlpack::dtype_code::Float, 16);
    case DType::kBFloat16:
      return made(nb::dlpack::dtype_code::Bfloat, 16);
    case DType::kFloat32:
      return nb::dtype<float>();
    case DType::kFloat64:
      return nb::dtype<double>();
    case DType::kComplex64:
      return made(nb::dlpack::dtype_code::Complex, 64);
    case DType::kComplex128:
      return made(nb::dlpack::dtype_code::Complex, 128);
  }
  return nb::dtype<float>();
}

/// Throws TypeError for a type that tensors have not.
DType dtype_of(nb::dlpack::dtype d) {
  for (int i = 0; i < kNumTensorDTypes; ++i) {
    if (array_dtype(static_cast<DType>(i)) == d) return static_cast<DType>(i);
  }
  raise<TypeError>(
      "can't convert an array of this type; supported: complex128, complex64, float64, float32, float16, int64, int32, "
      "int16, int8, uint8 "
      "and ",
      "bool; use array.astype(...) first");
}

Dims shape_of(const AnyArray& a) {
  Dims shape;
  for (size_t i = 0; i < a.ndim(); ++i) shape.push_back(static_cast<int64_t>(a.shape(i)));
  return shape;
}

/// An array of `Framework` on the elements of `t`, or a copy of them, at `data` on a device, which `owner` keeps alive.
/// `strides` may be null.
template <class Framework>
nb::object array_at(void* data, Device device, const Tensor& t, const int64_t* strides, const nb::capsule& owner,
                    nb::dlpack::dtype dtype) {
  const Dims& shape = t.shape();
  size_t extents[kMaxRank];
  for (int i = 0; i < shape.size(); ++i) extents[i] = shape[i];
  const int type = device.type == DeviceType::kCUDA ? nb::device::cuda::value : nb::device::cpu::value;
  return nb::cast(nb::ndarray<Framework>(data, shape.size(), extents, owner, strides, dtype, type, device.index));
}

/// An array comes as that of NumPy's two types of 64 bits which is not its default, and would be printed with its
/// name.
nb::object with_usual_type(const nb::object& array, DType t) {
  return t == DType::kInt64 ? array.attr("view")("int64") : array;
}

/// The owner that an array keeps of the memory that it shares.
struct Shared {
  BufferRef buffer;
  bool in_order;  ///< its work on a device is, with the legacy default stream or with our queue

  /// Waits for the work of the array's library on a device, which may still run in the memory.
  ~Shared() {
    if (buffer->device().type != DeviceType::kCUDA || cuda::is_forked()) return;
    try {
      if (in_order) {
        cuda::Queue::of(buffer->device().index).follow(cuda::legacy_stream());
      } else {
        cuda::synchronize(buffer->device().index);
      }
    } catch (const Error&) {  // which the next call to the driver will tell
    }
  }
};

/// An array in the memory of `t`: a write to either is seen by the other.
template <class Framework>
nb::object shared_array(const Tensor& t, bool in_order) {
  eager::Array memory;
  {
    const WithoutGil nogil;
    memory = lazy::export_memory(t);
  }
  const nb::capsule owner(new Shared{memory.buffer, in_order},
                          [](void* p) noexcept { delete static_cast<Shared*>(p); });
  int64_t strides[kMaxRank];
  for (int i = 0; i < memory.strides.size(); ++i) strides[i] = memory.strides[i];
  return array_at<Framework>(memory.data, t.device(), t, strides, owner, array_dtype(memory.dtype));
}

/// The address of the elements for good: what uses it on a device, in order with the legacy default stream, tells
/// nobody when it is done.
uintptr_t lasting_address(const Tensor& t) {
  const WithoutGil nogil;
  const eager::Array memory = lazy::export_memory(t);
  auto shared = std::make_shared<Shared>(memory.buffer, true);
  const BufferRef& whole = shared->buffer;
  void* const data = whole->data();
  const size_t bytes = whole->bytes();
  const Device device = whole->device();
  lazy::stay_exported(t, wrap_foreign(data, bytes, device, [kept = std::move(shared)] {}));
  cuda::Queue::of(device.index).precede(cuda::legacy_stream());
  return reinterpret_cast<uintptr_t>(memory.data);
}

/// A copy as a NumPy array; NumPy has no bfloat16, which becomes float32 (exactly).
nb::object to_numpy(const Tensor& t) {
  BufferRef buffer;
  {
    const WithoutGil nogil;
    buffer = t.materialize("numpy");
  }
  const int64_t n = t.numel();
  const SourceToken source = capture_source();
  record_copy("numpy", resolve_source(source), n * itemsize(t.dtype()));
  const CopySpan span("numpy", source, n * itemsize(t.dtype()));
  const bool widen = t.dtype() == DType::kBFloat16;
  auto* const copy = new char[std::max<size_t>(1, n * (widen ? 4 : itemsize(t.dtype())))];
  if (widen) {
    const auto* const from = static_cast<const BFloat16*>(buffer->data());
    for (int64_t i = 0; i < n; ++i) reinterpret_cast<float*>(copy)[i] = to_float(from[i]);
  } else if (n) {
    std::memcpy(copy, buffer->data(), n * itemsize(t.dtype()));
  }
  const nb::capsule owner(copy, [](void* p) noexcept { delete[] static_cast<char*>(p); });
  const DType dtype = widen ? DType::kFloat32 : t.dtype();
  return with_usual_type(array_at<nb::numpy>(copy, {}, t, nullptr, owner, array_dtype(dtype)), dtype);
}

/// A tensor with a copy of an array's elements.
Tensor from_numpy_copy(const nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>& a) {
  return Tensor::from_data(a.data(), shape_of(AnyArray(a)), dtype_of(a.dtype()));
}

/// Bytes of the storage that `t` holds, as an array. What is not shared with others stays as it is now, whatever is
/// written to the tensor later.
nb::object contents(const Tensor& t) {
  BufferRef buffer;
  int64_t elements = t.numel();
  {
    const WithoutGil nogil;
    if (lazy::is_external(t) && t.device().type == DeviceType::kCPU) {
      const eager::Array memory = lazy::window(t);
      buffer = memory.buffer;
      if (elements) elements = 1;
      for (int i = 0; elements && i < memory.shape.size(); ++i) elements += (memory.shape[i] - 1) * memory.strides[i];
    } else {
      buffer = t.materialize("save");
    }
  }
  const nb::capsule owner(new BufferRef(buffer), [](void* p) noexcept { delete static_cast<BufferRef*>(p); });
  static uint8_t nothing;
  const size_t bytes = elements * itemsize(t.dtype());
  return nb::cast(nb::ndarray<nb::numpy, uint8_t, nb::ro>(bytes ? buffer->data() : &nothing, {bytes}, owner));
}

/// A tensor with a copy of bytes, which are its elements in row-major order.
Tensor from_contents(const nb::ndarray<nb::ro, uint8_t, nb::c_contig, nb::device::cpu>& bytes,
                     const std::vector<int64_t>& shape, PyDType dtype) {
  const Dims extents((std::span<const int64_t>(shape)));
  SMOLDER_CHECK(static_cast<int64_t>(bytes.size()) == numel(extents) * static_cast<int64_t>(itemsize(dtype.value)),
                RuntimeError, bytes.size(), " bytes are not the elements of a tensor of shape ", extents, " and dtype ",
                name(dtype.value));
  return Tensor::from_data(bytes.data(), extents, dtype.value);
}

/// Arrays that tensors were made of and no tensor uses any more. The last use may end on any thread, under the tape's
/// lock, without the GIL; they wait here until the interpreter finds time to let them go, and the device, where they
/// are on one, has done what uses them.
class Orphans {
 public:
  static void add(AnyArray* array) {
    if (cuda::is_forked() && array->device_type() == nb::device::cuda::value) return;  // it is the parent's
    {
      const std::lock_guard hold(g_lock);
      list().push_back({array, used(*array)});
    }
    Py_AddPendingCall([](void*) { return release(), 0; }, nullptr);  // when its queue is full others will do
  }
  /// Needs the GIL.
  static void release() {
    std::vector<Orphan> gone;
    {
      const std::lock_guard hold(g_lock);
      const auto first = std::stable_partition(list().begin(), list().end(), [](Orphan& o) { return is_used(o); });
      gone.assign(std::make_move_iterator(first), std::make_move_iterator(list().end()));
      list().erase(first, list().end());
    }
    for (const Orphan& o : gone) delete o.array;
  }

 private:
  struct Orphan {
    AnyArray* array;
    std::unique_ptr<cuda::Event> used;  ///< a point after all that uses it; null on the CPU
  };
  static std::unique_ptr<cuda::Event> used(const AnyArray& array) {
    if (array.device_type() != nb::device::cuda::value) return nullptr;
    try {
      auto event = std::make_unique<cuda::Event>(array.device_id());
      event->record(cuda::Queue::of(array.device_id()).stream());
      return event;
    } catch (const Error&) {  // the device is lost
      return nullptr;
    }
  }
  static bool is_used(Orphan& o) {
    try {
      return o.used && !o.used->done();
    } catch (const Error&) {
      return false;
    }
  }
  static inline ForkMutex& g_lock = *new ForkMutex;  // tensors may outlive static destructors
  static std::vector<Orphan>& list() {
    static auto* const it = new std::vector<Orphan>;
    return *it;
  }
};

/// Where an array is. Throws for places where tensors cannot be.
Device device_of(const AnyArray& a) {
  if (a.device_type() == nb::device::cpu::value) return {};
  SMOLDER_CHECK(a.device_type() == nb::device::cuda::value, RuntimeError, "Unsupported device_type: ", a.device_type(),
                " of DLPack: tensors are on the CPU (1) or CUDA (2)");
  cuda::check_ordinal(a.device_id());
  return {DeviceType::kCUDA, a.device_id()};
}

/// A tensor in the memory of an array: a write to either is seen by the other. `dtype` says what the elements are
/// where the array can't, being of a type of the same size. `is_left`: see from_foreign().
Tensor share_array(const AnyArray& a, std::optional<PyDType> dtype, std::function<bool()> is_left) {
  Orphans::release();
  const Device device = device_of(a);
  const DType type = dtype ? dtype->value : dtype_of(a.dtype());
  SMOLDER_CHECK(itemsize(type) * 8 == a.dtype().bits, ValueError, "elements of ", a.dtype().bits, " bits are not ",
                name(type));
  SMOLDER_CHECK(reinterpret_cast<uintptr_t>(a.data()) % itemsize(type) == 0, ValueError,
                "the elements of the given array are not aligned to their size; make a copy of it with array.copy()");
  const Dims shape = shape_of(a);
  Dims strides;
  for (size_t i = 0; i < a.ndim(); ++i) strides.push_back(a.stride(i));
  auto* const held = new AnyArray(a);
  BufferRef buffer =
      wrap_foreign(const_cast<void*>(a.data()), numel(shape) * itemsize(type), device, [held] { Orphans::add(held); });
  return lazy::from_foreign(std::move(buffer), shape, strides, type, std::move(is_left));
}

Tensor from_array(const AnyArray& a, std::optional<PyDType> dtype) { return share_array(a, dtype, {}); }

/// A tensor of another dtype in the memory of `t`. `shape` has as many bytes; where elements have another size, rows
/// are next to each other, and the strides in bytes are multiples of both.
Tensor view_bits(const Tensor& t, const std::vector<int64_t>& shape, PyDType dtype) {
  const WithoutGil nogil;
  const eager::Array memory = lazy::export_memory(t);
  const auto from = static_cast<int64_t>(itemsize(t.dtype())), to = static_cast<int64_t>(itemsize(dtype.value));
  SMOLDER_CHECK(reinterpret_cast<uintptr_t>(memory.data) % to == 0, RuntimeError, "view(dtype): the memory begins at ",
                memory.data, ", which is no multiple of the ", to, " bytes of ", name(dtype.value),
                "; use clone() first");
  Dims strides;
  for (const int64_t stride : memory.strides) strides.push_back(stride * from / to);
  if (from != to) strides.back() = 1;
  const Dims extents((std::span<const int64_t>(shape)));
  BufferRef buffer = wrap_foreign(memory.data, numel(extents) * to, t.device(), [kept = memory.buffer] {});
  return lazy::from_foreign(std::move(buffer), extents, strides, dtype.value, {});
}

/// Whether something refers to `o` without counting as a reference.
bool has_weak_references(PyObject* o) {
  return PyType_SUPPORTS_WEAKREFS(Py_TYPE(o)) && *PyObject_GET_WEAKREFS_LISTPTR(o);
}

/// Whether the memory of a NumPy array is its own, or that of arrays which nobody else refers to, and may be written.
/// The array itself has `references`.
bool is_nobodys(PyObject* array, Py_ssize_t references) {
  if (Py_REFCNT(array) != references || has_weak_references(array)) return false;
  const nb::handle type = nb::handle(array).type();
  nb::object last = nb::borrow(array);
  if (!nb::cast<bool>(last.attr("flags").attr("writeable"))) return false;
  for (;;) {
    nb::object base = last.attr("base");
    if (base.is_none()) return nb::cast<bool>(last.attr("flags").attr("owndata"));
    // The base of the view: the view refers to it, and so do we.
    if (!base.type().is(type) || Py_REFCNT(base.ptr()) != 2 || has_weak_references(base.ptr())) return false;
    last = std::move(base);
  }
}

/// As from_array, of an object whose type is numpy.ndarray. When the tensor is all that is left of the array, as of one
/// that was made for the call, its memory is the tensor's.
Tensor from_numpy(const nb::object& array) {
  PyObject* const object = array.ptr();
  const Py_ssize_t before = Py_REFCNT(object);
  const auto a = nb::cast<AnyArray>(array);
  const Py_ssize_t held = Py_REFCNT(object) - before;
  if (held <= 0) return from_array(a, {});  // kept in a way that this does not know
  return share_array(a, {}, [object, held] { return PyGILState_Check() && is_nobodys(object, held); });
}

}  // namespace

void release_orphans() { Orphans::release(); }

void bind_memory(nb::module_& m, nb::class_<Tensor>& tensor) {
  tensor.def("_to_numpy", &to_numpy)
      .def("_numpy",
           [](const Tensor& t) {
             SMOLDER_CHECK(t.device().type == DeviceType::kCPU, TypeError, "can't convert ", to_string(t.device()),
                           " device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.");
             return with_usual_type(shared_array<nb::numpy>(t, true), t.dtype());
           })
      .def("_lasting_address", &lasting_address)
      .def("_dlpack", &shared_array<nb::array_api>, nb::arg("in_order"))
      // A key of the storage, and the tensor that holds it. If that is not in row-major order, the second is a view
      // whose dimensions are in the order of memory.
      .def("_storage",
           [](const Tensor& t) {
             lazy::TensorImpl* const owner = lazy::owner_of(t.impl());
             const Tensor holder(owner);
             return std::make_pair(reinterpret_cast<uintptr_t>(owner),
                                   owner->order ? permute(holder.detach(), *owner->order) : holder);
           })
      .def("_owner", [](const Tensor& t) { return Tensor(lazy::owner_of(t.impl())); })
      .def("_contents", &contents);
  m.def("from_numpy_copy", &from_numpy_copy);
  m.def("_from_contents", &from_contents, nb::arg("bytes"), nb::arg("shape"), nb::arg("dtype"));
  m.def("_from_array", &from_array, nb::arg("array"), nb::arg("dtype") = nb::none());
  m.def("_view_bits", &view_bits, nb::arg("tensor"), nb::arg("shape"), nb::arg("dtype"));
  m.def("_from_numpy", &from_numpy, nb::arg("array"));
}

}  // namespace smolder::python
