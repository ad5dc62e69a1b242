#include "smolder/jit/cuda/native/sort.h"

#include <algorithm>
#include <bit>
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

// Rows of which only the first few are wanted. Of what each thread comes to first no more than the wanted many can be
// beyond the last that is wanted: what is not beyond that is little more than what is wanted, mostly, and each element
// of it counts those before it. Where many are equal a block finds the key of the last digit by digit, then takes what
// comes before it and, in order, as many of its equals as there is room for; those it sorts.
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
// A key, nearly the least of those that so many of all threads' first keys do not go beyond. One warp.
DEVICE Key bound_of(const Key* firsts, u32 wanted) {
  constexpr int kDigits = 14;  // of two values: as many as tell floats of one size from each other
  Key mine[kWarps], all = kMask, any = 0;
#pragma unroll
  for (int k = 0; k < kWarps; ++k) {
    mine[k] = firsts[k * 32 + lane_number()];
    all &= mine[k];
    any |= mine[k];
  }
#pragma unroll
  for (int by = 16; by > 0; by /= 2) {
    all &= __shfl_sync(kAll, all, lane_number() ^ by);
    any |= __shfl_sync(kAll, any, lane_number() ^ by);
  }
  Key bound = any, differ = all ^ any;
#pragma unroll
  for (int by = 1; by < 8 * static_cast<int>(sizeof(Key)); by *= 2) differ |= differ >> by;
  Key bit = differ ^ differ >> 1;
#pragma unroll 1
  for (int digit = 0; digit < kDigits && bit != 0; ++digit, bit >>= 1) {
    const Key lower = (bound | (bit - 1)) & ~bit;
    u32 count = 0;
#pragma unroll
    for (int k = 0; k < kWarps; ++k) count += __popc(__ballot_sync(kAll, mine[k] <= lower));
    bound = count >= wanted ? lower : bound | (bit - 1);
  }
  return bound;
}
DEVICE Element element_at(const SortArguments& a, const Element* from, i64 i) {
  return from[kNeighbours ? i : i * a.step];
}
// Whether that was all: there were not too many.
DEVICE bool select_few(const SortArguments& a, const Element* from, u32 (&room)[kWarps][kBuckets], Key* firsts,
                       u32& count, Key& bound) {
  constexpr u32 kPlaces = sizeof(room) / (sizeof(Key) + sizeof(u32)), kMost = 640;  // beyond that counts take longer
  constexpr u32 kRoom = kPlaces < kMost ? kPlaces : kMost;
  constexpr int kRoomHeld = kHeld > 0 ? kHeld : 1;
  Key* const keys = reinterpret_cast<Key*>(room);
  u32* const positions = reinterpret_cast<u32*>(keys + kRoom);
  const u32 n = static_cast<u32>(a.n);
  Key held[kRoomHeld], first = ~Key(0);
  if constexpr (kHeld > 0) {
    Element x[kRoomHeld];
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const u32 i = k * kThreads + threadIdx.x;
      if (i < n) x[k] = element_at(a, from, i);
    }
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      held[k] = k * kThreads + threadIdx.x < n ? key_of(x[k]) : ~Key(0);
      first = held[k] < first ? held[k] : first;
    }
  } else {
#pragma unroll 8
    for (i64 i = threadIdx.x; i < a.n; i += kThreads) {
      const Key key = key_of(element_at(a, from, i));
      first = key < first ? key : first;
    }
  }
  firsts[threadIdx.x] = first;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  if (threadIdx.x < 32) bound = bound_of(firsts, static_cast<u32>(a.limit));
  __syncthreads();
  const Key last = bound;
  const auto take = [&](Key key, u32 i) {
    if (key > last) return;
    const u32 at = atomicAdd(&count, 1u);
    if (at >= kRoom) return;
    keys[at] = key;
    positions[at] = i;
  };
  if (first <= last) {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        if (k * kThreads + threadIdx.x < n) take(held[k], k * kThreads + threadIdx.x);
      }
    } else {
#pragma unroll 8
      for (i64 i = threadIdx.x; i < a.n; i += kThreads) {
        take(key_of(element_at(a, from, i)), static_cast<u32>(i));
      }
    }
  }
  __syncthreads();
  const u32 all = count;
  if (all > kRoom) return false;
#pragma unroll 1
  for (u32 at = threadIdx.x; at < all; at += kThreads) {
    const Key key = keys[at];
    const u32 position = positions[at];
    u32 before = 0;
#pragma unroll 8
    for (u32 k = 0; k < all; ++k) {
      const bool smaller = keys[k] < key, same = keys[k] == key, earlier = positions[k] < position;
      before += smaller | (same & earlier);
    }
    if (before >= a.limit) continue;
    const i64 to = out_of(a, blockIdx.x) + before * a.out_step;
    a.values[to] = element_of(key, from + position * a.step);
    a.indices[to] = position;
  }
  return true;
}
BOUNDED_KERNEL(select_rows, SortArguments, kThreads, kHeld > 0 ? 1536 / kThreads : 1) {
  __shared__ TileMemory memory;
  __shared__ u32 positions_room[kTile];
  __shared__ u32 starts[kBuckets + 1], sums[kWarps], chosen;
  __shared__ Key bound;
  const Element* from = row_of(a, blockIdx.x);
  if (select_few(a, from, memory.ranking.counts, memory.room, chosen, bound)) return;
  __syncthreads();
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

constexpr int kThreads = 256;
/// Of a block that selects: as many as give each so many elements, which are in registers, or more that are not; and
/// twice as many as are wanted, or what the threads come to first says little.
constexpr int64_t kFewestSelect = 128, kMostSelect = 1024, kManySelect = 256, kHeldElements = 16, kFirsts = 2;
constexpr int64_t kShortRow = 32, kLongestTile = 4096;
/// Fewer than one in so many wanted, and at most so many: they are selected. A block reads its row several times, so
/// long rows must be many.
constexpr int64_t kSelectBelow = 8, kMostSelected = kMostSelect, kSelectRow = int64_t{1} << 18, kSelectRows = 64;
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

  int select_threads() const {
    const auto power = [](int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n))); };
    const int64_t by_length = n_ <= kFewestSelect * kHeldElements / 2 ? kFewestSelect
                              : n_ <= 2 * kManySelect * kHeldElements ? kManySelect
                                                                      : kMostSelect;
    return static_cast<int>(std::min(std::max(by_length, power(kFirsts * limit_)), kMostSelect));
  }

  void choose(DType dtype, bool descending) {
    wide_ = key_bits(dtype) > 32;
    const bool selects = limit_ * kSelectBelow < n_ && limit_ <= kMostSelected && n_ >= kFewestSelect &&
                         (n_ <= kSelectRow || rows_ >= kSelectRows);
    threads_ = selects ? select_threads() : kThreads;
    const auto held = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(ceil_div(n_, threads_))));
    const int items = selects ? 1 : n_ <= int64_t{kThreads} * 4 ? 4 : 16;
    const std::string start = typedef_of("Element", dtype) + "typedef " + (wide_ ? "u64" : "u32") +
                              " Key;\nconstexpr int kBits = " + std::to_string(key_bits(dtype)) +
                              ", kThreads = " + std::to_string(threads_) + ", kItems = " + std::to_string(items) +
                              (selects ? ", kHeld = " + std::to_string(held > kHeldElements ? 0 : held) +
                                             ", kNeighbours = " + std::to_string(step_ == 1)
                                       : "") +
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
