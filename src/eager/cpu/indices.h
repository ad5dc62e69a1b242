// Tools of kernels that read or write at indices: indices checked, types, columns, row-major results.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "smolder/core/element.h"
#include "smolder/eager/cpu/movement.h"
#include "smolder/eager/cpu/strided.h"

namespace smolder::eager::cpu {

/// Indices of one axis of extent `n`, in [0, n).
class Indices {
 public:
  Indices(const TensorView& v, int64_t n, ErrorReport* errors)
      : data_(v.data), wide_(v.dtype == DType::kInt64), n_(n), errors_(errors) {
    SMOLDER_CHECK(wide_ || v.dtype == DType::kInt32, TypeError, "indices must be int64 or int32, got ", name(v.dtype));
  }

  /// The index `at` elements from the first; -1 and a report when out of range.
  int64_t find(int64_t at) const {
    const int64_t i = wide_ ? static_cast<const int64_t*>(data_)[at] : static_cast<const int32_t*>(data_)[at];
    if (i >= 0 && i < n_) [[likely]]
      return i;
    errors_->bad_index(i, n_);
    return -1;
  }
  /// The nearest index in range. `n` must not be 0.
  int64_t clamp(int64_t at) const {
    const int64_t found = find(at);
    if (found >= 0) [[likely]]
      return found;
    const int64_t i = wide_ ? static_cast<const int64_t*>(data_)[at] : static_cast<const int32_t*>(data_)[at];
    return i < 0 ? 0 : n_ - 1;
  }

 private:
  const void* data_;
  bool wide_;
  int64_t n_;
  ErrorReport* errors_;
};

// The primitive `add`: integers wrap, bools or, halves round.
template <class T>
T add(T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return a || b;
  } else if constexpr (std::is_same_v<T, Float16>) {
    return to_float16(to_float(a) + to_float(b));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(to_float(a) + to_float(b));
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
  } else {
    return a + b;
  }
}

/// The positions of a shape but for one axis, in order, with the offsets of several tensors there.
template <int N>
class Columns {
 public:
  Columns(const Dims& shape, int axis, const std::array<const TensorView*, N>& tensors) {
    for (int a = 0; a < shape.size(); ++a) {
      if (a == axis) continue;
      extents_.push_back(shape[a]);
      for (int k = 0; k < N; ++k) strides_[k].push_back(tensors[k]->strides[a]);
    }
  }
  int64_t count() const { return numel(extents_); }

  /// Calls `f(offsets)` for columns [begin, end).
  void for_each(int64_t begin, int64_t end, auto f) const {
    Dims index = Dims::filled(extents_.size(), 0);
    std::array<int64_t, N> at{};
    int64_t rest = begin;
    for (int a = extents_.size() - 1; a >= 0; --a) {
      index[a] = rest % extents_[a];
      rest /= extents_[a];
      for (int k = 0; k < N; ++k) at[k] += index[a] * strides_[k][a];
    }
    for (int64_t i = begin; i < end; ++i) {
      f(at);
      for (int a = extents_.size() - 1; a >= 0; --a) {
        for (int k = 0; k < N; ++k) at[k] += strides_[k][a];
        if (++index[a] < extents_[a]) break;
        for (int k = 0; k < N; ++k) at[k] -= index[a] * strides_[k][a];
        index[a] = 0;
      }
    }
  }

 private:
  Dims extents_;
  std::array<Dims, N> strides_;
};

inline int64_t columns_grain(int64_t length) { return std::max<int64_t>(1, kGrain / std::max<int64_t>(length, 1)); }

/// A zero-dim tensor as one of a single element, so that it has an axis.
inline TensorView with_axis(TensorView v) {
  if (v.shape.empty()) {
    v.shape = {1};
    v.strides = {1};
  }
  return v;
}

/// The operands of take and index_add around `axis`: [outer, n, inner] beside [outer, rows, inner].
struct Rows {
  int64_t outer = 1, inner = 1, n, rows;
  Rows(const Dims& shape, int axis, const Dims& index) : n(shape[axis]), rows(numel(index)) {
    for (int a = 0; a < axis; ++a) outer *= shape[a];
    for (int a = axis + 1; a < shape.size(); ++a) inner *= shape[a];
  }
};

/// Runs `f` with a row-major result: `out` itself, or scratch memory that is then copied to it.
void with_contiguous(const TensorView& out, auto f) {
  if (is_contiguous(out.shape, out.strides)) return f(out);
  const BufferRef scratch = allocate(static_cast<size_t>(numel(out.shape)) * itemsize(out.dtype));
  const TensorView plain{scratch->data(), out.dtype, out.shape, contiguous_strides(out.shape)};
  f(plain);
  copy(plain, out);
}

}  // namespace smolder::eager::cpu
