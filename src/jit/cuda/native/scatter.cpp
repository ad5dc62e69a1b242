#include "smolder/jit/cuda/native/scatter.h"

#include <bit>
#include <optional>

#include "smolder/core/error.h"
#include "smolder/ir/builder.h"
#include "smolder/jit/cuda/native/copy.h"
#include "smolder/jit/cuda/native/device.h"
#include "smolder/jit/cuda/native/radix.h"

namespace smolder::jit::cuda {

namespace {

// The program names Element, Index, Key and Combine: what becomes of the element there and the one written.
constexpr const char* kCombineText = R"cuda(
struct Set {
  static constexpr bool kLast = true;
  template <class E> DEVICE E of(E, E y) { return y; }
};
struct Add {
  static constexpr bool kLast = false;
  template <class E> DEVICE E of(E x, E y) {
    if constexpr (Is<E>::kBool) return x || y;
    else if constexpr (Is<E>::kFloat) return Narrow<E>::of(widen(x) + widen(y));
    else return static_cast<E>(static_cast<u64>(x) + static_cast<u64>(y));
  }
};
struct Multiply {
  static constexpr bool kLast = false;
  template <class E> DEVICE E of(E x, E y) {
    if constexpr (Is<E>::kBool) return x && y;
    else if constexpr (Is<E>::kFloat) return Narrow<E>::of(widen(x) * widen(y));
    else return static_cast<E>(static_cast<u64>(x) * static_cast<u64>(y));
  }
};
template <class E> DEVICE bool is_nan(E x) { return !(widen(x) == widen(x)); }
// nan wins, the one there first; of equal elements the one there stays.
struct Largest {
  static constexpr bool kLast = false;
  template <class E> DEVICE E of(E x, E y) { return !is_nan(x) && (widen(x) < widen(y) || is_nan(y)) ? y : x; }
};
struct Smallest {
  static constexpr bool kLast = false;
  template <class E> DEVICE E of(E x, E y) { return !is_nan(x) && (widen(y) < widen(x) || is_nan(y)) ? y : x; }
};

constexpr u32 kAll = 0xffffffffu;
// An index of an axis of extent n, or -1 and a report.
DEVICE i64 checked(Index index, i64 n, u32* error) {
  const i64 i = static_cast<i64>(index);
  if (i >= 0 && i < n) return i;
  if (error) *error = 1;
  return -1;
}
)cuda";

// Element e of the index, as numbers: the column that it is in, times n, and the place in it. Those out of range have
// `absent`, which is beyond all others.
constexpr const char* kKeyText = R"cuda(
struct KeyArguments {
  const Index* index;
  Key* keys;
  u32* error;
  i64 count, n, length, inner, absent, rank, extents[8], strides[8];
};
KERNEL(make_keys, KeyArguments) {
  const i64 e = thread_number();
  if (e >= a.count) return;
  const i64 i = checked(a.index[offset_at(static_cast<u64>(e), a.rank, a.extents, a.strides)], a.n, a.error);
  u64 rest = static_cast<u64>(e);
  const i64 column = take_digit(rest, static_cast<u64>(a.inner));
  take_digit(rest, static_cast<u64>(a.length));
  a.keys[e] = static_cast<Key>(i < 0 ? a.absent : (static_cast<i64>(rest) * a.inner + column) * a.n + i);
}
)cuda";

// [outer, n, inner] written at rows from [outer, count, inner].
constexpr const char* kRowsText = R"cuda(
struct RowsArguments {
  const Key* keys;       // sorted
  const u32* positions;  // of the keys
  const Element* source;
  Element* result;
  i64 outer, count, n, inner;
};
// Where the equal keys that begin at e end.
DEVICE i64 end_of(const Key* keys, i64 e, i64 count) {
  const Key key = keys[e];
  i64 end = e + 1, step = 1;
  for (; end + step <= count && keys[end + step - 1] == key; step *= 2) end += step;
  for (; step > 0; step /= 2) {
    if (end + step <= count && keys[end + step - 1] == key) end += step;
  }
  return end;
}
template <int V> DEVICE void combine_packs(Pack<Element, V>& x, const Pack<Element, V>& y) {
#pragma unroll
  for (int k = 0; k < V; ++k) x.x[k] = Combine::of(x.x[k], y.x[k]);
}
template <int V> DEVICE void combine_row(Pack<Element, V>& x, const Element* from) {
  Pack<Element, V> y;
  load_whole(y, from);
  combine_packs(x, y);
}
template <int V> DEVICE void write_sorted(const RowsArguments& a) {
  u64 rest = static_cast<u64>(thread_number());
  const i64 packs = a.inner / V, pack = take_digit(rest, static_cast<u64>(packs));
  const i64 e = take_digit(rest, static_cast<u64>(a.count)), outer = static_cast<i64>(rest);
  if (outer >= a.outer) return;
  const Key key = a.keys[e];
  if (key >= a.n) return;
  const i64 neighbour = Combine::kLast ? e + 1 : e - 1;
  if (neighbour >= 0 && neighbour < a.count && a.keys[neighbour] == key) return;
  Element* to = a.result + (outer * a.n + static_cast<i64>(key)) * a.inner + pack * V;
  const Element* __restrict__ from = a.source + outer * a.count * a.inner + pack * V;
  const u32* __restrict__ positions = a.positions;
  Pack<Element, V> x;
  if (Combine::kLast) {
    load_whole(x, from + positions[e] * a.inner);
  } else {
    load_whole(x, to);
    const i64 end = end_of(a.keys, e, a.count);
#pragma unroll 8
    for (i64 k = e; k < end; ++k) combine_row(x, from + positions[k] * a.inner);
  }
  store_whole(to, x);
}
KERNEL(write_rows, RowsArguments) { write_sorted<1>(a); }
KERNEL(write_rows_whole, RowsArguments) { write_sorted<16 / sizeof(Element)>(a); }

// Of places with many rows each, so that a thread has a place, and many of its rows on their way.
template <int V> DEVICE void write_crowded(const RowsArguments& a) {
  constexpr int kAtOnce = 16;
  u64 rest = static_cast<u64>(thread_number());
  const i64 packs = a.inner / V, pack = take_digit(rest, static_cast<u64>(packs));
  const i64 place = take_digit(rest, static_cast<u64>(a.n)), outer = static_cast<i64>(rest);
  if (outer >= a.outer) return;
  i64 e = 0;
  for (i64 length = a.count; length > 0;) {
    const i64 half = length / 2;
    const bool before = static_cast<i64>(a.keys[e + half]) < place;
    e = before ? e + half + 1 : e;
    length = before ? length - half - 1 : half;
  }
  if (e == a.count || static_cast<i64>(a.keys[e]) != place) return;
  const i64 end = end_of(a.keys, e, a.count);
  Element* to = a.result + (outer * a.n + place) * a.inner + pack * V;
  const Element* __restrict__ from = a.source + outer * a.count * a.inner + pack * V;
  const u32* __restrict__ positions = a.positions;
  Pack<Element, V> x;
  load_whole(x, to);
#pragma unroll 1
  for (i64 k = e; k < end; k += kAtOnce) {
    Pack<Element, V> y[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (k + i < end) load_whole(y[i], from + positions[k + i] * a.inner);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (k + i < end) combine_packs(x, y[i]);
    }
  }
  store_whole(to, x);
}
KERNEL(write_crowded_rows, RowsArguments) { write_crowded<1>(a); }
KERNEL(write_crowded_rows_whole, RowsArguments) { write_crowded<16 / sizeof(Element)>(a); }

// An index so short that each block reads all of it: a block has one row, and leaves it to the first block of its place.
struct FewRowsArguments {
  const Index* index;
  const Element* source;
  Element* result;
  u32* error;
  i64 count, n, inner, rank, extents[8], strides[8];
};
template <int V> DEVICE void write_few(const FewRowsArguments& a) {
  __shared__ i64 places[kFewRows];
  __shared__ int others;
  u64 rest = blockIdx.x;
  const i64 packs = a.inner / V, stretches = (packs + blockDim.x - 1) / blockDim.x;
  const i64 stretch = take_digit(rest, static_cast<u64>(stretches));
  const i64 e = take_digit(rest, static_cast<u64>(a.count)), outer = static_cast<i64>(rest);
  for (i64 i = threadIdx.x; i < a.count; i += blockDim.x) {
    places[i] = checked(a.index[offset_at(static_cast<u64>(i), a.rank, a.extents, a.strides)], a.n, a.error);
  }
  if (threadIdx.x == 0) others = 0;
  __syncthreads();
  const i64 place = places[e];
  if (place < 0) return;
  for (i64 i = threadIdx.x; i < a.count; i += blockDim.x) {
    if (places[i] == place && (Combine::kLast ? i > e : i < e)) others = 1;
  }
  __syncthreads();
  const i64 pack = stretch * blockDim.x + threadIdx.x;
  if (others || pack >= packs) return;
  Element* to = a.result + (outer * a.n + place) * a.inner + pack * V;
  const Element* from = a.source + outer * a.count * a.inner + pack * V;
  Pack<Element, V> x;
  if (Combine::kLast) {
    load_whole(x, from + e * a.inner);
  } else {
    load_whole(x, to);
    for (i64 k = e; k < a.count; ++k) {
      if (places[k] == place) combine_row(x, from + k * a.inner);
    }
  }
  store_whole(to, x);
}
KERNEL(write_few_rows, FewRowsArguments) { write_few<1>(a); }
KERNEL(write_few_rows_whole, FewRowsArguments) { write_few<16 / sizeof(Element)>(a); }
)cuda";

// Each element of an index to a place of its own.
constexpr const char* kElementsText = R"cuda(
struct ColumnArguments {
  const Index* index;
  const Element* source;
  Element* result;
  u32* error;
  i64 columns, length, n, index_step, source_step, result_step;
  i64 rank, extents[8], index_strides[8], source_strides[8], result_strides[8];
};
// A thread takes a column.
KERNEL(walk_columns, ColumnArguments) {
  const u64 column = static_cast<u64>(thread_number());
  if (column >= a.columns) return;
  const Index* index = a.index + offset_at(column, a.rank, a.extents, a.index_strides);
  const Element* source = a.source + offset_at(column, a.rank, a.extents, a.source_strides);
  Element* result = a.result + offset_at(column, a.rank, a.extents, a.result_strides);
  for (i64 j = 0; j < a.length; ++j) {
    const i64 i = checked(index[j * a.index_step], a.n, a.error);
    if (i >= 0) result[i * a.result_step] = Combine::of(result[i * a.result_step], source[j * a.source_step]);
  }
}

struct ElementArguments {
  const Key* keys;       // sorted
  const u32* positions;  // of the keys
  const Index* index;
  const Element* source;
  Element* result;
  u32* error;
  i64 count, n, length, inner, absent, result_step;
  // Of the result, the axis has no stride here.
  i64 rank, extents[8], index_strides[8], source_strides[8], result_strides[8];
};
DEVICE Element* place_in(const ElementArguments& a, u64 position) {
  return a.result + offset_at(position, a.rank, a.extents, a.result_strides) +
         static_cast<i64>(a.index[offset_at(position, a.rank, a.extents, a.index_strides)]) * a.result_step;
}
DEVICE Element source_at(const ElementArguments& a, u64 position) {
  return a.source[offset_at(position, a.rank, a.extents, a.source_strides)];
}

constexpr int kAlone = 16;  // of one place, that a thread writes alone; the rest its warp fetches
KERNEL(write_elements, ElementArguments) {
  const i64 e = thread_number();
  const int lane = static_cast<int>(threadIdx.x % 32);
  i64 key = e < a.count ? static_cast<i64>(a.keys[e]) : a.absent;
  const i64 neighbour = Combine::kLast ? e + 1 : e - 1;
  const bool mine =
      key < a.absent && !(neighbour >= 0 && neighbour < a.count && static_cast<i64>(a.keys[neighbour]) == key);
  Element* to = mine ? place_in(a, a.positions[e]) : nullptr;
  if (Combine::kLast) {
    if (mine) *to = source_at(a, a.positions[e]);
    return;
  }
  Element x = mine ? *to : Element();
  i64 at = e;
  const auto is_next = [&](i64 k, i64 of) { return k < a.count && static_cast<i64>(a.keys[k]) == of; };
  for (; mine && at < e + kAlone && is_next(at, key); ++at) x = Combine::of(x, source_at(a, a.positions[at]));
  u32 waiting = __ballot_sync(kAll, mine && is_next(at, key));
  while (waiting) {
    const int leader = __ffs(waiting) - 1;
    waiting &= waiting - 1;
    const i64 its_key = from_lane(key, leader);
    i64 k = from_lane(at, leader) + lane;
    Element sum = from_lane(x, leader);
    bool here = is_next(k, its_key);
    Element y = here ? source_at(a, a.positions[k]) : Element();
    for (;;) {
      k += 32;
      const u32 present = __ballot_sync(kAll, here);
      const bool then = is_next(k, its_key);
      const Element next = then ? source_at(a, a.positions[k]) : Element();
      const int number = __popc(present);
#pragma unroll 8
      for (int i = 0; i < number; ++i) sum = Combine::of(sum, from_lane(y, i));
      if (present != kAll) break;
      here = then;
      y = next;
    }
    if (lane == leader) x = sum;
  }
  if (mine) *to = x;
}

// An index so short that each block makes all keys.
KERNEL(write_few_elements, ElementArguments) {
  __shared__ i64 places[kFewElements];
  for (i64 i = threadIdx.x; i < a.count; i += blockDim.x) {
    const i64 place = checked(a.index[offset_at(static_cast<u64>(i), a.rank, a.extents, a.index_strides)], a.n, a.error);
    u64 rest = static_cast<u64>(i);
    const i64 column = take_digit(rest, static_cast<u64>(a.inner));
    take_digit(rest, static_cast<u64>(a.length));
    places[i] = place < 0 ? a.absent : (static_cast<i64>(rest) * a.inner + column) * a.n + place;
  }
  __syncthreads();
  const i64 e = thread_number();
  if (e >= a.count) return;
  const i64 place = places[e];
  if (place == a.absent) return;
  const i64 first = Combine::kLast ? e + 1 : 0, last = Combine::kLast ? a.count : e;
  for (i64 k = first; k < last; ++k) {
    if (places[k] == place) return;
  }
  Element* to = place_in(a, static_cast<u64>(e));
  Element x = *to;
  for (i64 k = e; k < a.count; ++k) {
    if (places[k] == place) x = Combine::of(x, source_at(a, static_cast<u64>(k)));
  }
  *to = x;
}
)cuda";

// Sums of which the order says nothing.
constexpr const char* kAtomicText = R"cuda(
DEVICE void add_to(i32* to, i32 x) { atomicAdd(reinterpret_cast<u32*>(to), static_cast<u32>(x)); }
DEVICE void add_to(i64* to, i64 x) { atomicAdd(reinterpret_cast<u64*>(to), static_cast<u64>(x)); }
DEVICE void add_to(bool* to, bool x) { if (x) *to = true; }
KERNEL(add_in_any_order, ElementArguments) {
  const u64 e = static_cast<u64>(thread_number());
  if (e >= a.count) return;
  const i64 i = checked(a.index[offset_at(e, a.rank, a.extents, a.index_strides)], a.n, a.error);
  if (i < 0) return;
  add_to(a.result + offset_at(e, a.rank, a.extents, a.result_strides) + i * a.result_step, source_at(a, e));
}
)cuda";

constexpr int kThreads = 256, kCrowdedThreads = 64;
/// Rows a place from which on its threads are enough.
constexpr int64_t kCrowd = 16;
constexpr int64_t kFewRows = 512, kFewElements = 1024, kFewBlocks = int64_t{1} << 15;
/// A column this short is walked by one thread, where there are so many.
constexpr int64_t kShortColumn = 32, kManyColumns = 4096;

const char* combine_of(ir::Op op, const std::vector<int64_t>& attrs) {
  if (op == ir::Op::kIndexSet) return "Set";
  if (op != ir::Op::kScatterInto) return "Add";
  constexpr const char* kNames[] = {"Set", "Multiply", "Largest", "Smallest"};  // as ir::ScatterKind
  return kNames[attrs[0]];
}

std::string program_start(DType element, DType index, bool wide_keys, const char* combine) {
  return typedef_of("Element", element) + typedef_of("Index", index) + "typedef " + (wide_keys ? "u64" : "u32") +
         " Key;\nconstexpr int kFewRows = " + std::to_string(kFewRows) +
         ", kFewElements = " + std::to_string(kFewElements) + ";\n" + kCombineText + "typedef " + combine +
         " Combine;\n" + kKeyText;
}

/// What both kinds have: the result begins as the first operand, and keys are sorted.
class Scatter : public BoundLibrary {
 public:
  Scatter(NativeDevice& device, ir::Op op, const std::vector<LibraryView>& inputs, const LibraryView& out, int axis)
      : device_(device), op_(op), axis_(axis), start_(device, inputs[0], out), n_(out.shape[axis]) {
    const DType index = inputs[1].dtype;
    SMOLDER_CHECK(index == DType::kInt64 || index == DType::kInt32, TypeError, "indices must be int64 or int32, got ",
                  name(index));
  }
  bool has_error_word() const override { return true; }
  bool only_queues() const override { return true; }
  bool run(std::span<void* const> addresses) const override { return queue(addresses, nullptr); }
  std::string describe() const override { return std::string(ir::name(op_)) + " at " + std::to_string(count_); }

 protected:
  /// Sorts the places that an index names. `length` and `inner` say what its columns are.
  void prepare_sort(int64_t columns, int64_t length, int64_t inner) {
    columns_ = columns, length_ = length, inner_ = inner;
    absent_ = columns * n_;
    wide_ = absent_ >= int64_t{1} << 32;
  }
  RadixSort::Sorted sort(const RadixSort& radix, const NativeRef& make_keys, const void* index, const Axes& axes,
                         uint32_t* error) const {
    BufferRef keys = device_.allocate(count_ * RadixSort::bytes_of_key(wide_));
    make_keys->launch(ceil_div(count_, kThreads), kThreads,
                      words(index, keys->data(), error, count_, n_, length_, inner_, absent_, axes.extents.size(),
                            axes.extents, axes.strides[0]));
    return radix.run(std::move(keys));
  }
  RadixSort make_radix() const {
    return {device_, 1, count_, wide_, static_cast<int>(std::bit_width(static_cast<uint64_t>(absent_)))};
  }
  /// Every index is out of range of an axis without elements.
  void report_all(uint32_t* error) const {
    if (error) device_.fill(error, 1, sizeof *error);
  }

  NativeDevice& device_;
  const ir::Op op_;
  const int axis_;
  const StridedCopy start_;
  const int64_t n_;
  int64_t count_ = 0;  ///< of the index's elements
  int64_t columns_ = 1, length_ = 1, inner_ = 1, absent_ = 0;
  bool wide_ = false;
};

/// index_add and index_set.
class ScatterRows final : public Scatter {
 public:
  ScatterRows(NativeDevice& device, ir::Op op, const std::vector<LibraryView>& inputs, const LibraryView& out, int axis,
              const char* combine)
      : Scatter(device, op, inputs, out, axis),
        index_(inputs[1].shape, {inputs[1].strides}),
        source_(device, inputs[2]),
        result_(device, out),
        item_(static_cast<int64_t>(itemsize(out.dtype))) {
    count_ = numel(inputs[1].shape);
    for (int a = 0; a < axis; ++a) outer_ *= out.shape[a];
    for (int a = axis + 1; a < out.shape.size(); ++a) width_ *= out.shape[a];
    prepare_sort(1, std::max<int64_t>(count_, 1), 1);
    if (count_ == 0 || n_ == 0 || outer_ * width_ == 0) return;
    few_ = count_ <= kFewRows && outer_ * count_ * ceil_div(width_, kThreads) <= kFewBlocks;
    const std::string program = program_start(out.dtype, inputs[1].dtype, wide_, combine) + kRowsText;
    crowded_ = !few_ && op != ir::Op::kIndexSet && count_ >= kCrowd * n_;
    const std::string entry = few_ ? "write_few_rows" : crowded_ ? "write_crowded_rows" : "write_rows";
    write_ = device.function(program, entry);
    write_whole_ = device.function(program, entry + "_whole");
    if (few_) return;
    make_keys_ = device.function(program, "make_keys");
    radix_.emplace(make_radix());
  }

  bool queue(std::span<void* const> addresses, uint32_t* error) const override {
    start_.run(addresses[0], addresses[3]);
    if (n_ == 0 && count_ > 0) report_all(error);
    if (!write_) return true;
    BufferRef source_holder, result_holder;
    const void* const source = source_.at(addresses[2], source_holder);
    void* const result = result_.at(addresses[3], result_holder);
    result_.begin(addresses[3], result_holder);
    const bool whole = width_ * item_ % 16 == 0 &&
                       (reinterpret_cast<uintptr_t>(source) | reinterpret_cast<uintptr_t>(result)) % 16 == 0;
    const NativeFunction& write = whole ? *write_whole_ : *write_;
    const int64_t packs = whole ? width_ * item_ / 16 : width_;
    if (few_) {
      write.launch(outer_ * count_ * ceil_div(packs, kThreads), kThreads,
                   words(addresses[1], source, result, error, count_, n_, width_, index_.extents.size(), index_.extents,
                         index_.strides[0]));
    } else {
      const RadixSort::Sorted sorted = sort(*radix_, make_keys_, addresses[1], index_, error);
      const int64_t threads = crowded_ ? outer_ * n_ * packs : outer_ * count_ * packs;
      const int block = crowded_ ? kCrowdedThreads : kThreads;
      write.launch(ceil_div(threads, block), block,
                   words(sorted.keys->data(), sorted.positions->data(), source, result, outer_, count_, n_, width_));
    }
    result_.finish(addresses[3], result_holder);
    return true;
  }

 private:
  const Axes index_;
  const DenseOperand source_;
  const DenseResult result_;
  const int64_t item_;
  int64_t outer_ = 1, width_ = 1;
  bool few_ = false, crowded_ = false;
  NativeRef write_, write_whole_, make_keys_;
  std::optional<RadixSort> radix_;
};

/// A zero-dim tensor as one of a single element, so that it has an axis.
LibraryView with_axis(LibraryView v) {
  if (v.shape.empty()) v.shape = {1}, v.strides = {1};
  return v;
}
Dims without(Dims list, int axis) {
  list.erase(axis);
  return list;
}
Dims with_zero(Dims list, int axis) {
  list[axis] = 0;
  return list;
}

/// scatter_add and scatter_into.
class ScatterElements final : public Scatter {
 public:
  ScatterElements(NativeDevice& device, ir::Op op, const std::vector<LibraryView>& inputs, const LibraryView& out,
                  int axis, const char* combine)
      : Scatter(device, op, inputs, out, axis),
        elements_(inputs[1].shape, {inputs[1].strides, inputs[2].strides, with_zero(out.strides, axis)}),
        columns_axes_(without(inputs[1].shape, axis),
                      {without(inputs[1].strides, axis), without(inputs[2].strides, axis), without(out.strides, axis)}),
        index_step_(inputs[1].strides[axis]),
        source_step_(inputs[2].strides[axis]),
        result_step_(out.strides[axis]) {
    const Dims& shape = inputs[1].shape;
    count_ = numel(shape);
    if (count_ == 0 || n_ == 0) return;
    int64_t inner = 1;
    for (int a = axis + 1; a < shape.size(); ++a) inner *= shape[a];
    prepare_sort(count_ / shape[axis], shape[axis], inner);
    const std::string program = program_start(out.dtype, inputs[1].dtype, wide_, combine) + kElementsText;
    const bool any_order = op == ir::Op::kScatterAdd && !is_floating(out.dtype) && out.dtype != DType::kUInt8;
    if (any_order) {
      write_ = device.function(program + kAtomicText, "add_in_any_order");
    } else if (length_ == 1 || (columns_ >= kManyColumns && length_ <= kShortColumn) || count_ >= int64_t{1} << 32) {
      walks_ = true;
      write_ = device.function(program, "walk_columns");
    } else if (count_ <= kFewElements) {
      write_ = device.function(program, "write_few_elements");
    } else {
      write_ = device.function(program, "write_elements");
      make_keys_ = device.function(program, "make_keys");
      radix_.emplace(make_radix());
    }
  }

  bool queue(std::span<void* const> addresses, uint32_t* error) const override {
    void *const index = addresses[1], *const source = addresses[2], *const result = addresses[3];
    start_.run(addresses[0], result);
    if (n_ == 0 && count_ > 0) report_all(error);
    if (!write_) return true;
    if (walks_) {
      const Axes& x = columns_axes_;
      write_->launch(ceil_div(columns_, kThreads), kThreads,
                     words(index, source, result, error, columns_, length_, n_, index_step_, source_step_, result_step_,
                           x.extents.size(), x.extents, x.strides[0], x.strides[1], x.strides[2]));
      return true;
    }
    const Axes& x = elements_;
    RadixSort::Sorted sorted;
    if (radix_) sorted = sort(*radix_, make_keys_, index, x, error);
    write_->launch(ceil_div(count_, kThreads), kThreads,
                   words(radix_ ? sorted.keys->data() : nullptr, radix_ ? sorted.positions->data() : nullptr, index,
                         source, result, error, count_, n_, length_, inner_, absent_, result_step_, x.extents.size(),
                         x.extents, x.strides[0], x.strides[1], x.strides[2]));
    return true;
  }

 private:
  const Axes elements_, columns_axes_;
  const int64_t index_step_, source_step_, result_step_;
  bool walks_ = false;
  NativeRef write_, make_keys_;
  std::optional<RadixSort> radix_;
};

}  // namespace

bool is_scatter(ir::Op op) {
  return op == ir::Op::kIndexAdd || op == ir::Op::kIndexSet || op == ir::Op::kScatterAdd || op == ir::Op::kScatterInto;
}

std::unique_ptr<BoundLibrary> make_scatter(NativeDevice& device, ir::Op op, const std::vector<LibraryView>& inputs,
                                           const LibraryView& out, const std::vector<int64_t>& attrs) {
  const char* const combine = combine_of(op, attrs);
  const int64_t axis_word = attrs[op == ir::Op::kScatterInto ? 1 : 0];
  if (op == ir::Op::kIndexAdd || op == ir::Op::kIndexSet) {
    const int axis = normalize_axis(axis_word, out.shape.size());
    return std::make_unique<ScatterRows>(device, op, inputs, out, axis, combine);
  }
  std::vector<LibraryView> with_axes;
  for (const LibraryView& v : inputs) with_axes.push_back(with_axis(v));
  const LibraryView result = with_axis(out);
  const int axis = normalize_axis(axis_word, result.shape.size());
  return std::make_unique<ScatterElements>(device, op, with_axes, result, axis, combine);
}

}  // namespace smolder::jit::cuda
