#include "smolder/jit/cuda/native/sort.h"

#include <algorithm>
#include <bit>
#include <map>

#include "smolder/core/error.h"
#include "smolder/jit/cuda/device/radix.h"
#include "smolder/jit/cuda/device/sort.h"
#include "smolder/jit/cuda/native/copy.h"
#include "smolder/jit/cuda/native/device.h"
#include "smolder/jit/cuda/native/radix.h"

namespace smolder::jit::cuda {

namespace {

constexpr int kThreads = 256;
/// Threads of a block that selects: so many that each has few elements, up to kHeldElements of them in registers; and
/// kFirsts times as many as are wanted, or what the threads come to first says little.
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

  /// All axes but the one sorted along, with strides of the operand and of the results.
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
                              ";\nconstexpr bool kDescending = " + (descending ? "true" : "false") + ";\n" + kSortKey;
    if (n_ <= kShortRow) {
      how_ = How::kCount;
      sort_ = device_.function(start + kSortShort, "sort_short_rows");
    } else if (selects || n_ <= kLongestTile) {
      how_ = How::kInBlock;
      sort_ = device_.function(start + kRadixRank + kSortStore + (selects ? kSortSelect : kSortTile),
                               selects ? "select_rows" : "sort_rows");
    } else {
      how_ = How::kLong;
      batch_ = std::clamp<int64_t>(kBatch / n_, 1, rows_);
      const std::string program = start + kSortLong;
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
