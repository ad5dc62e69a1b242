// Reads and writes at indices, and scans. Writes to one place happen in the order of the index, whatever the threads:
// they share columns (places that no other column reaches), never one.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <type_traits>

#include "smolder/core/half.h"
#include "smolder/core/thread_pool.h"
#include "smolder/eager/cpu/kernels.h"
#include "smolder/eager/cpu/movement.h"
#include "smolder/eager/cpu/strided.h"

namespace smolder::eager::cpu {
namespace {

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
    errors_->bad_index();
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

/// Calls `f(T{})` with the type that elements of `t` are added in memory as.
template <class F>
void with_type(DType t, F&& f) {
  switch (t) {
    case DType::kBool:
      return f(bool{});
    case DType::kUInt8:
      return f(uint8_t{});
    case DType::kInt32:
      return f(int32_t{});
    case DType::kInt64:
      return f(int64_t{});
    case DType::kFloat16:
      return f(Float16{});
    case DType::kBFloat16:
      return f(BFloat16{});
    case DType::kFloat32:
      return f(float{});
    case DType::kFloat64:
      return f(double{});
  }
}

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
  template <class F>
  void for_each(int64_t begin, int64_t end, F f) const {
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

int64_t columns_grain(int64_t length) { return std::max<int64_t>(1, kGrain / std::max<int64_t>(length, 1)); }

/// A zero-dim tensor as one of a single element, so that it has an axis.
TensorView with_axis(TensorView v) {
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
template <class F>
void with_contiguous(const TensorView& out, F f) {
  if (is_contiguous(out.shape, out.strides)) return f(out);
  const BufferRef scratch = allocate(static_cast<size_t>(numel(out.shape)) * itemsize(out.dtype));
  const TensorView plain{scratch->data(), out.dtype, out.shape, contiguous_strides(out.shape)};
  f(plain);
  copy(plain, out);
}

}  // namespace

void run_take(const KernelCall& call) {
  BufferRef holders[2];
  const int axis = normalize_axis(call.attrs[0], call.inputs[0].shape.size());
  const TensorView x = contiguous(call.inputs[0], holders[0]), index = contiguous(call.inputs[1], holders[1]);
  const Rows r(x.shape, axis, index.shape);
  const Indices indices(index, r.n, call.errors);
  if (r.n == 0) {
    if (r.rows > 0) call.errors->bad_index();
    return fill(call.outputs[0], 0);
  }
  with_contiguous(call.outputs[0], [&](const TensorView& out) {
    const size_t bytes = static_cast<size_t>(r.inner) * itemsize(x.dtype);
    const char* from = static_cast<const char*>(x.data);
    char* to = static_cast<char*>(out.data);
    parallel_for(r.outer * r.rows, columns_grain(r.inner), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i / r.rows * r.n + indices.clamp(i % r.rows);
        std::memcpy(to + i * bytes, from + row * bytes, bytes);
      }
    });
  });
}

void run_gather(const KernelCall& call) {
  const TensorView x = with_axis(call.inputs[0]), index = with_axis(call.inputs[1]), out = with_axis(call.outputs[0]);
  const int axis = normalize_axis(call.attrs[0], x.shape.size());
  const Indices indices(index, x.shape[axis], call.errors);
  if (x.shape[axis] == 0) {
    if (numel(index.shape) > 0) call.errors->bad_index();
    return fill(out, 0);
  }
  const Columns<3> columns(index.shape, axis, {&x, &index, &out});
  const int64_t length = index.shape[axis];
  with_item_type(itemsize(x.dtype), [&]<class T>(T) {
    const T* from = static_cast<const T*>(x.data);
    T* to = static_cast<T*>(out.data);
    parallel_for(columns.count(), columns_grain(length), [&](int64_t begin, int64_t end) {
      columns.for_each(begin, end, [&](const std::array<int64_t, 3>& at) {
        for (int64_t j = 0; j < length; ++j) {
          const int64_t i = indices.clamp(at[1] + j * index.strides[axis]);
          to[at[2] + j * out.strides[axis]] = from[at[0] + i * x.strides[axis]];
        }
      });
    });
  });
}

void run_index_add(const KernelCall& call) {
  BufferRef holders[2];
  const TensorView& x = call.inputs[0];
  const int axis = normalize_axis(call.attrs[0], x.shape.size());
  const TensorView index = contiguous(call.inputs[1], holders[0]), source = contiguous(call.inputs[2], holders[1]);
  const Rows r(x.shape, axis, index.shape);
  const Indices indices(index, r.n, call.errors);
  with_contiguous(call.outputs[0], [&](const TensorView& out) {
    copy(x, out);
    with_type(x.dtype, [&]<class T>(T) {
      // Stretches of columns: wide enough for a cache line each, so that threads do not share one.
      const int64_t width = std::min<int64_t>(r.inner, kBlock), stretches = (r.inner + width - 1) / width;
      const int64_t grain = columns_grain(r.rows * width);
      parallel_for(r.outer * stretches, grain, [&](int64_t begin, int64_t end) {
        for (int64_t piece = begin; piece < end; ++piece) {
          const int64_t outer = piece / stretches, first = piece % stretches * width;
          const int64_t count = std::min(width, r.inner - first);
          const T* from = static_cast<const T*>(source.data) + outer * r.rows * r.inner + first;
          T* to = static_cast<T*>(out.data) + outer * r.n * r.inner + first;
          for (int64_t j = 0; j < r.rows; ++j, from += r.inner) {
            const int64_t i = indices.find(j);
            if (i < 0) continue;
            T* row = to + i * r.inner;
            for (int64_t c = 0; c < count; ++c) row[c] = add(row[c], from[c]);
          }
        }
      });
    });
  });
}

void run_scatter_add(const KernelCall& call) {
  const TensorView index = with_axis(call.inputs[1]), source = with_axis(call.inputs[2]);
  const TensorView out = with_axis(call.outputs[0]);
  const int axis = normalize_axis(call.attrs[0], out.shape.size());
  const Indices indices(index, out.shape[axis], call.errors);
  copy(call.inputs[0], call.outputs[0]);
  const Columns<3> columns(index.shape, axis, {&out, &index, &source});
  const int64_t length = index.shape[axis];
  with_type(out.dtype, [&]<class T>(T) {
    const T* from = static_cast<const T*>(source.data);
    T* to = static_cast<T*>(out.data);
    parallel_for(columns.count(), columns_grain(length), [&](int64_t begin, int64_t end) {
      columns.for_each(begin, end, [&](const std::array<int64_t, 3>& at) {
        for (int64_t j = 0; j < length; ++j) {
          const int64_t i = indices.find(at[1] + j * index.strides[axis]);
          if (i < 0) continue;
          T& sum = to[at[0] + i * out.strides[axis]];
          sum = add(sum, from[at[2] + j * source.strides[axis]]);
        }
      });
    });
  });
}

void run_scan(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &out = call.outputs[0];
  const int axis = normalize_axis(call.attrs[0], out.shape.size());
  const Columns<2> columns(out.shape, axis, {&x, &out});
  const int64_t length = out.shape[axis], from_step = x.strides[axis], to_step = out.strides[axis];
  if (length == 0) return;
  with_type(out.dtype, [&]<class T>(T) {
    const T* from = static_cast<const T*>(x.data);
    T* to = static_cast<T*>(out.data);
    parallel_for(columns.count(), columns_grain(length), [&](int64_t begin, int64_t end) {
      columns.for_each(begin, end, [&](const std::array<int64_t, 2>& at) {
        T sum = to[at[1]] = from[at[0]];
        for (int64_t j = 1; j < length; ++j) {
          sum = add(sum, from[at[0] + j * from_step]);
          to[at[1] + j * to_step] = sum;
        }
      });
    });
  });
}

}  // namespace smolder::eager::cpu
