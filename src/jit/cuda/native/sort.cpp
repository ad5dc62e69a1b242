#include "smolder/jit/cuda/native/sort.h"

#include <algorithm>
#include <map>

#include "smolder/core/error.h"
#include "smolder/jit/cuda/native/copy.h"
#include "smolder/jit/cuda/native/device.h"
#include "smolder/jit/cuda/native/radix.h"

namespace smolder::jit::cuda {

namespace {

// The program names Element, Key, kBits (those of a key that count) and kDescending.
constexpr const char* kKeyText = R"cuda(
constexpr Key kMask = kBits == 8 * sizeof(Key) ? ~Key(0) : (Key(1) << (kBits % (8 * sizeof(Key)))) - 1;
constexpr Key kSign = Key(1) << (kBits - 1);
DEVICE Key bits_of(f16 x) { return x.bits; }
DEVICE Key bits_of(bf16 x) { return x.bits; }
DEVICE Key bits_of(f32 x) { return static_cast<Key>(__float_as_uint(x)); }
DEVICE Key bits_of(f64 x) { return static_cast<Key>(__double_as_longlong(x)); }
DEVICE void from_bits(f16& x, Key bits) { x.bits = static_cast<u16>(bits); }
DEVICE void from_bits(bf16& x, Key bits) { x.bits = static_cast<u16>(bits); }
DEVICE void from_bits(f32& x, Key bits) { x = __uint_as_float(static_cast<u32>(bits)); }
DEVICE void from_bits(f64& x, Key bits) { x = __longlong_as_double(static_cast<i64>(bits)); }
template <class E> struct FirstBit { static constexpr Key kFlips = 0; };
template <> struct FirstBit<i32> { static constexpr Key kFlips = kSign; };
template <> struct FirstBit<i64> { static constexpr Key kFlips = kSign; };

// The unsigned number that orders as an element does: nan is the largest, both zeros are equal.
template <class E> DEVICE Key key_of(E x) {
  Key key;
  if constexpr (Is<E>::kFloat) {
    const Key bits = bits_of(x);
    key = bits == kSign ? kSign : bits & kSign ? bits ^ kMask : bits | kSign;
    if (!(widen(x) == widen(x))) key = kMask;
  } else {
    key = static_cast<Key>(x) ^ FirstBit<E>::kFlips;
  }
  return kDescending ? key ^ kMask : key;
}
// The element of a key, which is that at `from` where several elements have the key.
template <class E> DEVICE E element_of(Key key, const E* from) {
  if (kDescending) key ^= kMask;
  if constexpr (Is<E>::kFloat) {
    if (key == kMask || key == kSign) return *from;
    E x;
    from_bits(x, key & kSign ? key ^ kSign : key ^ kMask);
    return x;
  } else {
    return static_cast<E>(key ^ FirstBit<E>::kFlips);
  }
}

struct SortArguments {
  const Element* x;
  Element* values;
  i64* indices;
  i64 rows, n, limit, step, out_step, rank, extents[8], strides[8], out_strides[8];
};
DEVICE const Element* row_of(const SortArguments& a, i64 row) {
  return a.x + offset_at(static_cast<u64>(row), a.rank, a.extents, a.strides);
}
DEVICE i64 out_of(const SortArguments& a, i64 row) {
  return offset_at(static_cast<u64>(row), a.rank, a.extents, a.out_strides);
}
)cuda";

// Rows so short that each element counts those before it.
constexpr const char* kShortText = R"cuda(
KERNEL(sort_short_rows, SortArguments) {
  u64 rest = static_cast<u64>(thread_number());
  const i64 at = take_digit(rest, static_cast<u64>(a.n)), row = static_cast<i64>(rest);
  if (row >= a.rows) return;
  const Element* from = row_of(a, row);
  const Element x = from[at * a.step];
  const Key key = key_of(x);
  i64 before = 0;
  for (i64 k = 0; k < a.n; ++k) {
    const Key other = key_of(from[k * a.step]);
    before += other < key || (other == key && k < at);
  }
  if (before >= a.limit) return;
  const i64 to = out_of(a, row) + before * a.out_step;
  a.values[to] = x;
  a.indices[to] = at;
}
)cuda";

// What follows the sort of a tile.
constexpr const char* kStoreText = R"cuda(
DEVICE void store_sorted(const SortArguments& a, const Element* from, const Key (&keys)[kItems],
                         const u32 (&positions)[kItems]) {
  const i64 to = out_of(a, blockIdx.x);
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const int at = place_of(k);
    if (at < a.limit) {
      a.values[to + at * a.out_step] = element_of(keys[k], from + positions[k] * a.step);
      a.indices[to + at * a.out_step] = positions[k];
    }
  }
}
)cuda";

// A block sorts a row in its memory.
constexpr const char* kTileText = R"cuda(
KERNEL(sort_rows, SortArguments) {
  __shared__ TileMemory memory;
  const Element* from = row_of(a, blockIdx.x);
  Key keys[kItems];
  u32 positions[kItems];
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const int at = place_of(k);
    keys[k] = at < a.n ? key_of(from[at * a.step]) : ~Key(0);
    positions[k] = static_cast<u32>(at);
  }
  sort_tile(keys, positions, kBits, memory);
  store_sorted(a, from, keys, positions);
}
)cuda";

// Rows of which only the first few are wanted. A block finds the key of the last of them digit by digit, then takes
// what comes before it and, in order, as many of its equals as there is room for; those it sorts.
constexpr const char* kSelectText = R"cuda(
DEVICE u32 scan_threads(u32 x, u32* sums, u32& all) {
  const u32 upto = sum_up_to_lane(x);
  if (lane_number() == 31) sums[warp_number()] = upto;
  __syncthreads();
  u32 ahead = 0;
  all = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    if (w < warp_number()) ahead += sums[w];
    all += sums[w];
  }
  __syncthreads();
  return ahead + upto - x;
}
KERNEL(select_rows, SortArguments) {
  __shared__ TileMemory memory;
  __shared__ u32 positions_room[kTile];
  __shared__ u32 starts[kBuckets + 1], sums[kWarps], chosen;
  const Element* from = row_of(a, blockIdx.x);
  const i64 rounds = (a.n + kThreads - 1) / kThreads;
  Key prefix = 0;  // the digits known of the last key
  u32 wanted = static_cast<u32>(a.limit);  // of those that begin like it
  for (int shift = kBits - 8; shift >= 0; shift -= 8) {
    u32* counts = memory.ranking.totals;
    for (int d = threadIdx.x; d < kBuckets; d += kThreads) counts[d] = 0;
    __syncthreads();
#pragma unroll 4
    for (i64 i = threadIdx.x; i < a.n; i += kThreads) {
      const Key key = key_of(from[i * a.step]);
      if (shift == kBits - 8 || key >> (shift + 8) == prefix) atomicAdd(&counts[digit_of(key, shift)], 1u);
    }
    __syncthreads();
    if (threadIdx.x < 32) scan_buckets(counts, starts);
    __syncthreads();
    for (int d = threadIdx.x; d < kBuckets; d += kThreads) {
      if (starts[d] < wanted && wanted <= starts[d] + counts[d]) chosen = static_cast<u32>(d);
    }
    __syncthreads();
    prefix = prefix << 8 | chosen;
    wanted -= starts[chosen];
    __syncthreads();
  }
  // Kept in the order of positions.
  u32 kept = 0, equal = 0;
  for (i64 round = 0; round < rounds && kept < a.limit; ++round) {
    const i64 i = round * kThreads + threadIdx.x;
    const Key key = i < a.n ? key_of(from[i * a.step]) : ~Key(0);
    const bool ties = i < a.n && key == prefix;
    u32 all_ties, all_taken;
    const u32 ties_before = equal + scan_threads(ties, sums, all_ties);
    const bool taken = i < a.n && (key < prefix || (ties && ties_before < wanted));
    const u32 place = kept + scan_threads(taken, sums, all_taken);
    if (taken) {
      memory.room[place] = key;
      positions_room[place] = static_cast<u32>(i);
    }
    equal += all_ties;
    kept += all_taken;
  }
  __syncthreads();
  Key keys[kItems];
  u32 positions[kItems];
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const int at = place_of(k);
    keys[k] = at < a.limit ? memory.room[at] : ~Key(0);
    positions[k] = at < a.limit ? positions_room[at] : 0;
  }
  __syncthreads();
  sort_tile(keys, positions, kBits, memory);
  store_sorted(a, from, keys, positions);
}
)cuda";

// Rows of several tiles: keys are made, sorted (RadixSort), and made elements again.
constexpr const char* kLongText = R"cuda(
struct LongArguments {
  SortArguments sort;
  Key* keys;  // [rows of this batch, n]
  const u32* positions;
  i64 first, count;  // the rows of this batch
};
KERNEL(make_sort_keys, LongArguments) {
  u64 rest = static_cast<u64>(thread_number());
  const u64 place = rest;
  const i64 at = take_digit(rest, static_cast<u64>(a.sort.n)), row = static_cast<i64>(rest);
  if (row < a.count) a.keys[place] = key_of(row_of(a.sort, a.first + row)[at * a.sort.step]);
}
KERNEL(write_sorted, LongArguments) {
  u64 rest = static_cast<u64>(thread_number());
  const i64 at = take_digit(rest, static_cast<u64>(a.sort.limit)), row = static_cast<i64>(rest);
  if (row >= a.count) return;
  const i64 from = row * a.sort.n + at, to = out_of(a.sort, a.first + row) + at * a.sort.out_step;
  const u32 position = a.positions[from];
  a.sort.values[to] = element_of(a.keys[from], row_of(a.sort, a.first + row) + position * a.sort.step);
  a.sort.indices[to] = position;
}
)cuda";

constexpr int kThreads = 256, kSelectThreads = 1024;
constexpr int64_t kShortRow = 32, kLongestTile = 4096;
/// Fewer than one in so many wanted, and at most so many: they are selected. A block reads its row several times, so
/// long rows must be many.
constexpr int64_t kSelectBelow = 8, kMostSelected = kSelectThreads, kSelectRow = int64_t{1} << 18, kSelectRows = 64;
/// Keys that are sorted at a time, unless a row has more.
constexpr int64_t kBatch = int64_t{1} << 26;

int key_bits(DType t) { return 8 * static_cast<int>(itemsize(t)); }

class Sorted final : public BoundLibrary {
 public:
  Sorted(NativeDevice& device, const LibraryView& x, const std::vector<LibraryView>& outputs,
         const std::vector<int64_t>& attrs)
      : device_(device),
        axis_(normalize_axis(attrs[0], x.shape.size())),
        values_(device, outputs[0]),
        indices_(device, outputs[1]),
        axes_(axes_of(x)) {
    n_ = x.shape[axis_];
    limit_ = outputs[0].shape[axis_];
    SMOLDER_CHECK(n_ < int64_t{1} << 32, NotImplementedError,
                  "sort: rows of more than 2^32 - 1 elements are not supported, got shape ", x.shape);
    step_ = x.strides[axis_];
    out_step_ = values_.view().strides[axis_];
    rows_ = numel(axes_.extents);
    if (n_ == 0 || limit_ == 0 || rows_ == 0) return;
    choose(x.dtype, attrs[1] != 0);
  }

  bool run(std::span<void* const> addresses) const override {
    if (how_ == How::kNothing) return true;
    BufferRef holders[2];
    void* const values = values_.at(addresses[1], holders[0]);
    void* const indices = indices_.at(addresses[2], holders[1]);
    const Words arguments = words(addresses[0], values, indices, rows_, n_, limit_, step_, out_step_,
                                  axes_.extents.size(), axes_.extents, axes_.strides[0], axes_.strides[1]);
    if (how_ == How::kCount) {
      sort_->launch(ceil_div(rows_ * n_, kThreads), kThreads, arguments);
    } else if (how_ == How::kInBlock) {
      sort_->launch(rows_, threads_, arguments);
    } else {
      for (int64_t first = 0; first < rows_; first += batch_) sort_long(arguments, first);
    }
    values_.finish(addresses[1], holders[0]);
    indices_.finish(addresses[2], holders[1]);
    return true;
  }
  bool only_queues() const override { return true; }
  std::string describe() const override {
    return "sorted of " + std::to_string(rows_) + " x " + std::to_string(n_) +
           (limit_ < n_ ? ", the first " + std::to_string(limit_) : "");
  }

 private:
  enum class How { kNothing, kCount, kInBlock, kLong };

  /// Of all axes but that sorted along; strides of the operand and of the results.
  Axes axes_of(const LibraryView& x) const {
    const auto without = [&](Dims list) {
      list.erase(axis_);
      return list;
    };
    return {without(x.shape), {without(x.strides), without(values_.view().strides)}};
  }

  void choose(DType dtype, bool descending) {
    wide_ = key_bits(dtype) > 32;
    const bool selects = limit_ * kSelectBelow < n_ && limit_ <= kMostSelected && n_ > kLongestTile &&
                         (n_ <= kSelectRow || rows_ >= kSelectRows);
    threads_ = selects ? kSelectThreads : kThreads;
    const int items = selects ? 1 : n_ <= int64_t{kThreads} * 4 ? 4 : 16;
    const std::string start = typedef_of("Element", dtype) + "typedef " + (wide_ ? "u64" : "u32") +
                              " Key;\nconstexpr int kBits = " + std::to_string(key_bits(dtype)) +
                              ", kThreads = " + std::to_string(threads_) + ", kItems = " + std::to_string(items) +
                              ";\nconstexpr bool kDescending = " + (descending ? "true" : "false") + ";\n" + kKeyText;
    if (n_ <= kShortRow) {
      how_ = How::kCount;
      sort_ = device_.function(start + kShortText, "sort_short_rows");
    } else if (selects || n_ <= kLongestTile) {
      how_ = How::kInBlock;
      sort_ = device_.function(start + kRankText + kStoreText + (selects ? kSelectText : kTileText),
                               selects ? "select_rows" : "sort_rows");
    } else {
      how_ = How::kLong;
      batch_ = std::clamp<int64_t>(kBatch / n_, 1, rows_);
      const std::string program = start + kLongText;
      make_keys_ = device_.function(program, "make_sort_keys");
      write_ = device_.function(program, "write_sorted");
      for (const int64_t rows : {batch_, rows_ % batch_}) {
        if (rows > 0) radix_.try_emplace(rows, device_, rows, n_, wide_, key_bits(dtype));
      }
    }
  }

  void sort_long(const Words& sort, int64_t first) const {
    const int64_t rows = std::min(batch_, rows_ - first);
    BufferRef keys = device_.allocate(rows * n_ * RadixSort::bytes_of_key(wide_));
    Words arguments = sort;
    const void* const none = nullptr;
    arguments.add(keys->data()).add(none).add(first).add(rows);
    make_keys_->launch(ceil_div(rows * n_, kThreads), kThreads, arguments);
    const RadixSort::Sorted sorted = radix_.at(rows).run(std::move(keys));
    arguments = sort;
    arguments.add(sorted.keys->data()).add(sorted.positions->data()).add(first).add(rows);
    write_->launch(ceil_div(rows * limit_, kThreads), kThreads, arguments);
  }

  NativeDevice& device_;
  const int axis_;
  const DenseResult values_, indices_;
  const Axes axes_;
  int64_t n_ = 0, limit_ = 0, rows_ = 0, step_ = 0, out_step_ = 0;
  How how_ = How::kNothing;
  bool wide_ = false;
  int threads_ = kThreads;
  int64_t batch_ = 0;
  NativeRef sort_, make_keys_, write_;
  std::map<int64_t, RadixSort> radix_;  ///< by the number of rows
};

}  // namespace

std::unique_ptr<BoundLibrary> make_sorted(NativeDevice& device, const LibraryView& x,
                                          const std::vector<LibraryView>& outputs, const std::vector<int64_t>& attrs) {
  return std::make_unique<Sorted>(device, x, outputs, attrs);
}

}  // namespace smolder::jit::cuda
