// Writes at indices. Those to one place happen in the order of the index, whatever the threads: each thread owns
// places that no other writes to, rows of the result or columns of it.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>

#include "smolder/core/thread_pool.h"
#include "smolder/eager/cpu/indices.h"
#include "smolder/eager/cpu/kernels.h"
#include "smolder/eager/cpu/scratch.h"
#include "smolder/eager/dispatcher.h"
#include "smolder/ir/builder.h"

namespace smolder::eager::cpu {
namespace {

// Combines the element there and the one written. In the order of ScatterKind.
struct Set {
  template <class T>
  T operator()(T, T y) const {
    return y;
  }
};
struct Add {
  template <class T>
  T operator()(T x, T y) const {
    return add(x, y);
  }
};
struct Multiply {
  template <class T>
  T operator()(T x, T y) const {
    if constexpr (std::is_same_v<T, bool>) {
      return x && y;
    } else if constexpr (std::is_same_v<T, Float16>) {
      return to_float16(to_float(x) * to_float(y));
    } else if constexpr (std::is_same_v<T, BFloat16>) {
      return to_bfloat16(to_float(x) * to_float(y));
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
    } else {
      return x * y;
    }
  }
};

template <class T>
bool less(T x, T y) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
    return to_float(x) < to_float(y);
  } else {
    return x < y;
  }
}
template <class T>
bool is_nan(T x) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
    return to_float(x) != to_float(x);
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(x);
  } else {
    return false;
  }
}
/// nan wins, the one there first; of equal elements the one there stays.
struct Largest {
  template <class T>
  T operator()(T x, T y) const {
    return !is_nan(x) && (less(x, y) || is_nan(y)) ? y : x;
  }
};
struct Smallest {
  template <class T>
  T operator()(T x, T y) const {
    return !is_nan(x) && (less(y, x) || is_nan(y)) ? y : x;
  }
};

/// Elements of a row from which on threads share the rows that are written: each walks the whole index, and guesses
/// wrong which of its entries are its own. Measured: sums of single numbers take four threads three times as long as
/// one.
constexpr int64_t kSharedRow = 32;

/// Rows of [outer, n, inner] written at `index`, which `indices` checks. A thread owns a range of rows, or of columns
/// where they are many, and walks the whole index.
template <class T, class Combine>
void write_rows(const Rows& r, const Indices& indices, const T* source, T* result, Combine combine) {
  // Stretches of columns: wide enough for a cache line each, so that threads do not share one.
  const int64_t width = std::min<int64_t>(r.inner, kBlock), stretches = (r.inner + width - 1) / width;
  const bool shares = r.inner >= kSharedRow && r.outer * stretches < num_threads();
  const int64_t cut = shares ? std::min<int64_t>(num_threads(), r.n) : 1;
  const int64_t share = (r.n + cut - 1) / cut, grain = columns_grain(r.rows * width / cut);
  parallel_for(r.outer * stretches * cut, grain, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t low = piece % cut * share, high = low + share, first = piece / cut % stretches * width;
      const int64_t outer = piece / cut / stretches, count = std::min(width, r.inner - first);
      const T* from = source + outer * r.rows * r.inner + first;
      T* to = result + outer * r.n * r.inner + first;
      for (int64_t j = 0; j < r.rows; ++j, from += r.inner) {
        const int64_t i = indices.find(j);
        if (i < low || i >= high) continue;  // another thread's, or none: -1
        T* __restrict row = to + i * r.inner;
        const T* __restrict one = from;
        for (int64_t c = 0; c < count; ++c) row[c] = combine(row[c], one[c]);
      }
    }
  });
}

/// Bytes of the tables of counts that fit beside each other in the first cache, and how many of them a thread goes
/// through in turn: an addition to a place waits for the one before to that place, which counts of pictures often are.
constexpr int64_t kTableBytes = 16 << 10, kTables = 4;
/// Numbers for each place from which on tables pay, and those worth a thread of its own.
constexpr int64_t kCrowd = 16, kNumbersOfThread = 1 << 16;

/// Whether the order of the writes says nothing, so that any of them may be made apart.
template <class T, class Combine>
constexpr bool kAnyOrder = std::is_integral_v<T> && std::is_same_v<Combine, Add>;

/// Single numbers, `step` elements apart, written at vectors of indices.
template <class T, class I, class Combine>
struct Numbers {
  const I* index;
  int64_t n;
  const T* source;
  int64_t step;
  T* result;
  Combine combine;
  ErrorReport* errors;

  bool is_inside(int64_t i) const {
    if (static_cast<uint64_t>(i) < static_cast<uint64_t>(n)) [[likely]]
      return true;
    errors->bad_index(i, n);
    return false;
  }
  void write(int64_t begin, int64_t end) const {
    for (int64_t j = begin; j < end; ++j) {
      const int64_t i = index[j];
      if (is_inside(i)) result[i] = combine(result[i], source[j * step]);
    }
  }
  /// The sums of each place in tables that begin as zeros.
  void count(int64_t begin, int64_t end, T* tables) const {
    int64_t j = begin;
    for (; j + kTables <= end; j += kTables) {
      for (int64_t k = 0; k < kTables; ++k) {
        const int64_t i = index[j + k];
        if (is_inside(i)) tables[k * n + i] = combine(tables[k * n + i], source[(j + k) * step]);
      }
    }
    for (; j < end; ++j) {
      const int64_t i = index[j];
      if (is_inside(i)) tables[i] = combine(tables[i], source[j * step]);
    }
  }
  /// Threads have tables of their own.
  void count_all(int64_t rows) const {
    const int64_t most = std::min<int64_t>(num_threads(), rows / kNumbersOfThread);
    const int64_t parts = std::max<int64_t>(1, most), size = kTables * n;
    T* const tables = scratch<T, 4>(parts * size);
    std::fill_n(tables, parts * size, T{});
    parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) count(rows * p / parts, rows * (p + 1) / parts, tables + p * size);
    });
    for (int64_t t = 0; t < parts * kTables; ++t) {
      for (int64_t i = 0; i < n; ++i) result[i] = combine(result[i], tables[t * n + i]);
    }
  }
  void run(int64_t rows) const {
    if constexpr (kAnyOrder<T, Combine>) {
      const bool fits = n * kTables * static_cast<int64_t>(sizeof(T)) <= kTableBytes;
      if (fits && rows >= kCrowd * n) return count_all(rows);
    }
    write(0, rows);
  }
};

/// Rows of one number each, `step` elements apart.
template <class T, class Combine>
void write_numbers(const Rows& r, const TensorView& index, const T* from, int64_t step, T* result, Combine combine,
                   ErrorReport* errors) {
  const auto write = [&]<class I>(const I* at) {
    parallel_for(r.outer, columns_grain(r.rows), [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        Numbers<T, I, Combine>{at, r.n, from + o * r.rows * step, step, result + o * r.n, combine, errors}.run(r.rows);
      }
    });
  };
  index.dtype == DType::kInt64 ? write(static_cast<const int64_t*>(index.data))
                               : write(static_cast<const int32_t*>(index.data));
}

/// Whether one number is in the place of all elements.
bool is_one_number(const TensorView& v) {
  for (int a = 0; a < v.shape.size(); ++a) {
    if (v.strides[a] != 0 && v.shape[a] != 1) return false;
  }
  return true;
}

/// Slices of an axis written at a vector of indices.
void run_rows(const KernelCall& call, int axis, const TensorView& at, const TensorView& from, auto combine) {
  BufferRef holders[2];
  const TensorView x = with_axis(call.inputs[0]);
  const Rows r(x.shape, axis, at.shape);
  const bool one_number = r.inner == 1 && is_one_number(from);
  const TensorView index = contiguous(at, holders[0]), source = one_number ? from : contiguous(from, holders[1]);
  const Indices indices(index, r.n, call.errors);
  if (r.n == 0 && r.rows > 0) indices.find(0);
  if (call.inputs[0].data == call.outputs[0].data) {
    // The elements there are the only copy: all indices are checked before any is written.
    for (int64_t j = 0; j < r.rows; ++j) {
      if (indices.find(j) < 0) return;
    }
  }
  with_contiguous(with_axis(call.outputs[0]), [&](const TensorView& out) {
    copy(x, out);
    if (r.n == 0 || r.inner == 0 || r.rows == 0) return;
    with_type(x.dtype, [&]<class T>(T) {
      const T* const first = static_cast<const T*>(source.data);
      T* const to = static_cast<T*>(out.data);
      if (r.inner == 1) return write_numbers(r, index, first, one_number ? 0 : 1, to, combine, call.errors);
      write_rows(r, indices, first, to, combine);
    });
  });
}

void run_rows(const KernelCall& call, auto combine) {
  const int axis = normalize_axis(call.attrs[0], call.inputs[0].shape.size());
  run_rows(call, axis, call.inputs[1], call.inputs[2], combine);
}

/// Columns that a thread goes down together, and the fewest that it takes: those of a cache line, which would go from
/// one thread to the other and back.
constexpr size_t kColumnsTogether = 64;
constexpr int64_t kFewestColumns = 16;

/// The vector that an index repeats along all axes but `axis`, if it does, and writes whole rows of `out`.
std::optional<TensorView> vector_of(const TensorView& index, const TensorView& out, int axis) {
  for (int a = 0; a < index.shape.size(); ++a) {
    if (index.shape[a] == 0) return std::nullopt;  // and none of its elements is looked at
    const bool repeats = index.strides[a] == 0 || index.shape[a] == 1;
    if (a != axis && !(repeats && index.shape[a] == out.shape[a])) return std::nullopt;
  }
  return TensorView{index.data, index.dtype, {index.shape[axis]}, {index.strides[axis]}};
}

/// Writes the elements of columns at their indices.
template <class T, class I, class Combine>
struct ColumnWriter {
  using Offsets = std::array<int64_t, 3>;  ///< of a column in the result, the index and what is written

  const I* index;
  const T* from;
  T* to;
  int64_t length, n;                       ///< of a column of the index, and of one of the result
  int64_t index_step, from_step, to_step;  ///< from element to element of a column
  Combine combine;
  ErrorReport* errors;

  void write(const Offsets& column, int64_t j) const {
    const int64_t i = index[column[1] + j * index_step];
    if (static_cast<uint64_t>(i) >= static_cast<uint64_t>(n)) [[unlikely]]
      return errors->bad_index(i, n);
    T& there = to[column[0] + i * to_step];
    there = combine(there, from[column[2] + j * from_step]);
  }
  void write(const Offsets& column) const {
    for (int64_t j = 0; j < length; ++j) write(column, j);
  }
  void write(std::span<const Offsets> columns) const {
    for (int64_t j = 0; j < length; ++j) {
      for (const Offsets& column : columns) write(column, j);
    }
  }
};

/// Columns that lie side by side in memory go down together, since there a row does; one that is a row itself goes
/// alone.
template <class Writer>
void write_columns(const Columns<3>& columns, const Writer& writer) {
  parallel_for(columns.count(), std::max(columns_grain(writer.length), kFewestColumns),
               [&](int64_t begin, int64_t end) {
                 if (writer.index_step == 1) {
                   return columns.for_each(begin, end, [&](const typename Writer::Offsets& at) { writer.write(at); });
                 }
                 std::array<typename Writer::Offsets, kColumnsTogether> together;
                 size_t count = 0;
                 columns.for_each(begin, end, [&](const typename Writer::Offsets& at) {
                   together[count++] = at;
                   if (count < kColumnsTogether) return;
                   writer.write(together);
                   count = 0;
                 });
                 writer.write(std::span(together).first(count));
               });
}

template <class Combine>
void run_elements(const KernelCall& call, int axis_word, Combine combine) {
  const TensorView index = with_axis(call.inputs[1]), out = with_axis(call.outputs[0]);
  TensorView source = with_axis(call.inputs[2]);
  const int axis = normalize_axis(call.attrs[axis_word], out.shape.size());
  if (const auto rows = vector_of(index, out, axis)) {
    for (int a = 0; a < source.shape.size(); ++a) source = part(source, a, 0, index.shape[a]);
    return run_rows(call, axis, *rows, source, combine);
  }
  const Indices indices(index, out.shape[axis], call.errors);
  copy(call.inputs[0], call.outputs[0]);
  const Columns<3> columns(index.shape, axis, {&out, &index, &source});
  const int64_t length = index.shape[axis];
  if (call.inputs[0].data == call.outputs[0].data) {
    // The elements there are the only copy: all indices are checked before any is written.
    std::atomic<bool> inside = true;
    parallel_for(columns.count(), columns_grain(length), [&](int64_t begin, int64_t end) {
      columns.for_each(begin, end, [&](const std::array<int64_t, 3>& at) {
        for (int64_t j = 0; j < length; ++j) {
          if (indices.find(at[1] + j * index.strides[axis]) < 0) inside = false;
        }
      });
    });
    if (!inside) return;
  }
  with_type(out.dtype, [&]<class T>(T) {
    const auto write = [&]<class I>(const I* at) {
      write_columns(columns,
                    ColumnWriter<T, I, Combine>{at, static_cast<const T*>(source.data), static_cast<T*>(out.data),
                                                length, out.shape[axis], index.strides[axis], source.strides[axis],
                                                out.strides[axis], combine, call.errors});
    };
    index.dtype == DType::kInt64 ? write(static_cast<const int64_t*>(index.data))
                                 : write(static_cast<const int32_t*>(index.data));
  });
}

}  // namespace

void run_index_add(const KernelCall& call) { run_rows(call, Add()); }
void run_index_set(const KernelCall& call) { run_rows(call, Set()); }
void run_scatter_add(const KernelCall& call) { run_elements(call, 0, Add()); }

void run_scatter_into(const KernelCall& call) {
  switch (static_cast<ir::ScatterKind>(call.attrs[0])) {
    case ir::ScatterKind::kSet:
      return run_elements(call, 1, Set());
    case ir::ScatterKind::kProd:
      return run_elements(call, 1, Multiply());
    case ir::ScatterKind::kMax:
      return run_elements(call, 1, Largest());
    case ir::ScatterKind::kMin:
      return run_elements(call, 1, Smallest());
  }
}

}  // namespace smolder::eager::cpu
