// The operands of eager execution: a tensor in memory, or a number.
#pragma once

#include <cstdint>

#include "smolder/core/buffer.h"
#include "smolder/core/scalar.h"
#include "smolder/eager/dispatcher.h"

namespace smolder::eager {

/// A tensor as a strided window on a buffer, a run-time number, or (default) an absent optional operand.
/// Copying shares the memory. Results of view ops share their operand's.
struct Array {
  BufferRef buffer;      ///< keeps `data` alive; null where the caller does, and for numbers
  void* data = nullptr;  ///< the element at index 0 of every axis; null for numbers
  DType dtype = DType::kFloat32;
  Dims shape;
  Dims strides;         ///< in elements
  bool weak = false;    ///< a number
  uint64_t number = 0;  ///< its bits, as Scalar::bits

  /// A row-major tensor in fresh memory, uninitialised. Throws OutOfMemoryError.
  static Array empty(const Dims& shape, DType dtype, Device device = {});
  /// A row-major tensor in memory that the caller keeps alive.
  static Array wrap(void* data, const Dims& shape, DType dtype);
  static Array wrap(BufferRef buffer, const Dims& shape, DType dtype);
  /// A run-time number: float64, int64 or bool by category.
  static Array from_number(Scalar v);

  bool defined() const { return data != nullptr || weak; }
  bool is_contiguous() const { return weak || smolder::is_contiguous(shape, strides); }
  ir::Meta meta() const { return {shape, dtype, weak}; }
  /// Bytes of the elements, not of the buffer.
  size_t bytes() const { return static_cast<size_t>(numel(shape)) * itemsize(dtype); }
  /// The kernel's view; valid while this array stays where it is.
  TensorView view() const { return {weak ? const_cast<uint64_t*>(&number) : data, dtype, shape, strides, weak}; }
};

/// The memory of a complex array as real and imaginary parts, along a last dimension of 2; others as they are.
Array as_pairs(const Array& a);
/// The other way: `a` is row-major, its last dimension is 2, and its dtype float32 or float64.
Array from_pairs(const Array& a);

}  // namespace smolder::eager
