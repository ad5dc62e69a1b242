// Stable sorts along an axis. An element becomes an unsigned key that orders as it does (nan last, both zeros equal)
// beside its position, so that no two are equal and any sort is the stable one: long rows are sorted by radix, byte by
// byte from the lowest, short ones by comparing. A single long row is shared by the threads.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "smolder/core/buffer.h"
#include "smolder/core/thread_pool.h"
#include "smolder/eager/cpu/indices.h"
#include "smolder/eager/cpu/kernels.h"
#include "smolder/eager/cpu/scratch.h"
#include "smolder/eager/dispatcher.h"

namespace smolder::eager::cpu {
namespace {

constexpr int kBuckets = 256;
/// Rows below are sorted by comparing, measured: a radix sort's histograms cost as much as 100 elements.
constexpr int64_t kShortRow = 128;
/// Rows from here on are shared by threads when there are not enough of them.
constexpr int64_t kSharedRow = 1 << 16;
/// Fewer than one element in so many asked for: they are selected, and only they are sorted.
constexpr int64_t kSelectBelow = 8;

/// The unsigned integer that orders as an element does.
template <class T>
auto key_of(T x) {
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, uint8_t>) {
    return static_cast<uint32_t>(x);
  } else if constexpr (std::is_integral_v<T> && sizeof(T) <= 4) {
    return static_cast<uint32_t>(int32_t{x}) ^ 0x80000000u;
  } else if constexpr (std::is_same_v<T, int64_t>) {
    return static_cast<uint64_t>(x) ^ (uint64_t{1} << 63);
  } else if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
    return key_of(to_float(x));
  } else {
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    constexpr Bits kSign = Bits{1} << (8 * sizeof(T) - 1);
    const T plain = x + T(0);  // -0 is 0
    Bits bits;
    std::memcpy(&bits, &plain, sizeof(bits));
    const Bits ordered = bits ^ (bits & kSign ? ~Bits{0} : kSign);
    return std::isnan(x) ? ~Bits{0} : ordered;
  }
}

/// Key and position, compared as one number.
struct Narrow {
  uint64_t word;
  Narrow() = default;
  Narrow(uint32_t key, uint32_t at) : word(uint64_t{key} << 32 | at) {}
  uint32_t position() const { return static_cast<uint32_t>(word); }
  unsigned byte(int i) const { return word >> (32 + 8 * i) & 255; }
  friend bool operator<(const Narrow& a, const Narrow& b) { return a.word < b.word; }
  static constexpr int kBytes = 4;
};
struct Wide {
  uint64_t key;
  uint32_t at;
  Wide() = default;
  Wide(uint64_t k, uint32_t position) : key(k), at(position) {}
  uint32_t position() const { return at; }
  unsigned byte(int i) const { return key >> (8 * i) & 255; }
  friend bool operator<(const Wide& a, const Wide& b) { return a.key != b.key ? a.key < b.key : a.at < b.at; }
  static constexpr int kBytes = 8;
};

/// One row in memory and where its results go; strides in elements.
template <class T>
struct Row {
  const T* in;
  T* values;
  int64_t* indices;
  int64_t n, limit, in_step, out_step;
};

template <class T, bool kDescending>
class Sorter {
  using Key = decltype(key_of(T{}));
  using Pair = std::conditional_t<sizeof(Key) == 4, Narrow, Wide>;
  using Histogram = std::array<uint32_t, kBuckets>;

 public:
  /// One row, by one thread.
  static void sort(const Row<T>& r) {
    if (r.limit * kSelectBelow < r.n) return select(r);
    Pair *from = scratch<Pair, 21>(r.n), *other = nullptr;
    read(r, from, 0, r.n);
    if (r.n < kShortRow) {
      std::sort(from, from + r.n);
    } else {
      other = scratch<Pair, 22>(r.n);
      from = by_radix(from, other, r.n);
    }
    write(r, from, 0, r.limit);
  }

  /// One long row, by all threads: each counts and moves a part, in the order of parts.
  static void sort_shared(const Row<T>& r) {
    const int parts = num_threads();
    const int64_t share = (r.n + parts - 1) / parts;
    // Pooled memory: fresh pages would cost as much as a pass over them.
    const BufferRef a = allocate(r.n * sizeof(Pair)), b = allocate(r.n * sizeof(Pair));
    Pair *from = static_cast<Pair*>(a->data()), *to = static_cast<Pair*>(b->data());
    const auto each = [&](auto&& f) {
      parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) f(p, std::min(p * share, r.n), std::min(p * share + share, r.n));
      });
    };
    each([&](int64_t, int64_t begin, int64_t end) { read(r, from, begin, end); });
    std::vector<Histogram> counts(parts);
    for (int byte = 0; byte < Pair::kBytes; ++byte) {
      each([&](int64_t p, int64_t begin, int64_t end) {
        counts[p].fill(0);
        for (int64_t i = begin; i < end; ++i) ++counts[p][from[i].byte(byte)];
      });
      if (!to_starts(counts, r.n)) continue;
      each([&](int64_t p, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) to[counts[p][from[i].byte(byte)]++] = from[i];
      });
      std::swap(from, to);
    }
    each([&](int64_t, int64_t begin, int64_t end) { write(r, from, begin, std::min(end, r.limit)); });
  }

 private:
  static Pair pair_at(const Row<T>& r, int64_t i) {
    const Key key = key_of(r.in[i * r.in_step]);
    return Pair(kDescending ? static_cast<Key>(~key) : key, static_cast<uint32_t>(i));
  }
  static void read(const Row<T>& r, Pair* to, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = pair_at(r, i);
  }
  static void write(const Row<T>& r, const Pair* from, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = from[i].position();
      r.values[i * r.out_step] = r.in[at * r.in_step];
      r.indices[i * r.out_step] = at;
    }
  }

  /// Counts become places to write at, by bucket and then by part; false when all are in one bucket.
  static bool to_starts(std::vector<Histogram>& counts, int64_t n) {
    uint32_t start = 0;
    for (int k = 0; k < kBuckets; ++k) {
      const uint32_t before = start;
      for (Histogram& h : counts) start += std::exchange(h[k], start);
      if (start - before == n) return false;
    }
    return true;
  }

  /// Returns where the sorted pairs are: `from` or `to`.
  static Pair* by_radix(Pair* from, Pair* to, int64_t n) {
    std::array<Histogram, Pair::kBytes> counts{};
    for (int64_t i = 0; i < n; ++i) {
      for (int byte = 0; byte < Pair::kBytes; ++byte) ++counts[byte][from[i].byte(byte)];
    }
    for (int byte = 0; byte < Pair::kBytes; ++byte) {
      Histogram& start = counts[byte];
      if (start[from[0].byte(byte)] == n) continue;  // all alike
      uint32_t sum = 0;
      for (uint32_t& c : start) sum += std::exchange(c, sum);
      for (int64_t i = 0; i < n; ++i) to[start[from[i].byte(byte)]++] = from[i];
      std::swap(from, to);
    }
    return from;
  }

  /// The first few: candidates are kept in a buffer, halved whenever it is full.
  static void select(const Row<T>& r) {
    if (r.limit == 0) return;
    const int64_t room = std::max<int64_t>(2 * r.limit, 64);
    Pair* const kept = scratch<Pair, 21>(room);
    int64_t count = 0, i = 0;
    for (; count < room && i < r.n; ++i) kept[count++] = pair_at(r, i);
    const auto halve = [&] {
      std::nth_element(kept, kept + r.limit - 1, kept + count);
      count = r.limit;
      return kept[r.limit - 1];
    };
    Pair worst = halve();
    for (; i < r.n; ++i) {
      const Pair p = pair_at(r, i);
      if (!(p < worst)) continue;
      kept[count++] = p;
      if (count == room) worst = halve();
    }
    halve();
    std::sort(kept, kept + count);
    write(r, kept, 0, r.limit);
  }
};

template <class T, bool kDescending>
void sort_all(const TensorView& x, const TensorView& values, const TensorView& indices, int axis) {
  using S = Sorter<T, kDescending>;
  const Columns<3> columns(x.shape, axis, {&x, &values, &indices});
  const int64_t n = x.shape[axis], limit = values.shape[axis];
  const auto row_at = [&](const std::array<int64_t, 3>& at) {
    SMOLDER_INVARIANT(values.strides[axis] == indices.strides[axis] || limit < 2);
    return Row<T>{static_cast<const T*>(x.data) + at[0],
                  static_cast<T*>(values.data) + at[1],
                  static_cast<int64_t*>(indices.data) + at[2],
                  n,
                  limit,
                  x.strides[axis],
                  values.strides[axis]};
  };
  if (n >= kSharedRow && columns.count() < num_threads() && limit * kSelectBelow >= n) {
    columns.for_each(0, columns.count(), [&](const std::array<int64_t, 3>& at) { S::sort_shared(row_at(at)); });
    return;
  }
  parallel_for(columns.count(), columns_grain(8 * n), [&](int64_t begin, int64_t end) {
    columns.for_each(begin, end, [&](const std::array<int64_t, 3>& at) { S::sort(row_at(at)); });
  });
}

}  // namespace

void run_sorted(const KernelCall& call) {
  const TensorView& x = call.inputs[0];
  const int axis = normalize_axis(call.attrs[0], x.shape.size());
  SMOLDER_CHECK(x.shape[axis] < int64_t{1} << 32, NotImplementedError,
                "sort: rows of more than 2^32 - 1 elements are not ", "supported, got shape ", x.shape);
  if (numel(call.outputs[0].shape) == 0) return;
  with_contiguous(call.outputs[0], [&](const TensorView& values) {
    with_contiguous(call.outputs[1], [&](const TensorView& indices) {
      with_type(x.dtype, [&]<class T>(T) {
        if (call.attrs[1]) {
          sort_all<T, true>(x, values, indices, axis);
        } else {
          sort_all<T, false>(x, values, indices, axis);
        }
      });
    });
  });
}

}  // namespace smolder::eager::cpu
