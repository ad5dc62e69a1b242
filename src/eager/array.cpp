#include "smolder/eager/array.h"

#include <utility>

#include "smolder/core/size.h"

namespace smolder::eager {

Array Array::empty(const Dims& shape, DType dtype, Device device) {
  return wrap(allocate(static_cast<size_t>(storage_bytes(shape, dtype)), device), shape, dtype);
}

Array Array::wrap(void* data, const Dims& shape, DType dtype) {
  Array a;
  a.data = data;
  a.dtype = dtype;
  a.shape = shape;
  a.strides = contiguous_strides(shape);
  return a;
}

Array Array::wrap(BufferRef buffer, const Dims& shape, DType dtype) {
  Array a = wrap(buffer->data(), shape, dtype);
  a.buffer = std::move(buffer);
  return a;
}

Array Array::from_number(Scalar v) {
  Array a;
  a.dtype = v.dtype(DType::kFloat64);
  a.weak = true;
  a.number = v.bits();
  return a;
}

Array as_pairs(const Array& a) {
  if (!is_complex(a.dtype)) return a;
  Array out = a;
  out.dtype = part_type(a.dtype);
  for (int64_t& s : out.strides) s *= 2;
  out.shape.push_back(2);
  out.strides.push_back(1);
  return out;
}

Array from_pairs(const Array& a) {
  SMOLDER_INVARIANT(a.is_contiguous() && !a.shape.empty() && a.shape.back() == 2);
  Array out = a;
  out.dtype = complex_type(a.dtype);
  out.shape.erase(out.shape.size() - 1);
  out.strides = contiguous_strides(out.shape);
  return out;
}

}  // namespace smolder::eager
