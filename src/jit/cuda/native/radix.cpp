#include "smolder/jit/cuda/native/radix.h"

#include <algorithm>

#include "smolder/core/error.h"
#include "smolder/jit/cuda/device/radix.h"

namespace smolder::jit::cuda {

namespace {

constexpr int kThreads = 256;
/// Items of a thread where there are few: more blocks are then at work.
constexpr int kFewItems = 4, kManyItems = 16;
constexpr int64_t kManyKeys = int64_t{1} << 19;

}  // namespace

RadixSort::RadixSort(NativeDevice& device, int64_t rows, int64_t n, bool wide, int bits)
    : device_(device), rows_(rows), n_(n), wide_(wide), passes_(static_cast<int>(ceil_div(std::max(bits, 1), 8))) {
  SMOLDER_INVARIANT(n < int64_t{1} << 32);
  // One tile of many items beats several of few, and for rows of that length there are no others.
  const bool one = n <= int64_t{kThreads} * kManyItems;
  const int items = one ? (n <= int64_t{kThreads} * kFewItems ? kFewItems : kManyItems)
                        : (rows * n < kManyKeys ? kFewItems : kManyItems);
  blocks_ = ceil_div(n, int64_t{kThreads} * items);
  const std::string program = std::string("typedef ") + (wide ? "u64" : "u32") +
                              " Key;\nconstexpr int kThreads = " + std::to_string(kThreads) +
                              ", kItems = " + std::to_string(items) + ";\n" + kRadixRank + kRadix;
  if (one) {
    tile_ = device.function(program, "sort_one");
  } else {
    count_ = device.function(program, "count_tiles");
    scan_ = device.function(program, "scan_counts");
    move_ = device.function(program, "move_tiles");
  }
}

RadixSort::Sorted RadixSort::run(BufferRef keys) const {
  const int64_t all = rows_ * n_;
  Sorted from{std::move(keys), device_.allocate(all * 4)};
  if (all == 0) return from;
  if (tile_) {
    tile_->launch(rows_, kThreads, words(from.keys->data(), from.positions->data(), n_, passes_ * 8));
    return from;
  }
  constexpr int64_t kBuckets = 256;
  Sorted to{device_.allocate(all * bytes_of_key(wide_)), device_.allocate(all * 4)};
  const BufferRef counts = device_.allocate(rows_ * kBuckets * blocks_ * 4);
  const BufferRef totals = device_.allocate(rows_ * kBuckets * 4);
  for (int pass = 0; pass < passes_; ++pass) {
    const void* const positions = pass == 0 ? nullptr : from.positions->data();
    count_->launch(rows_ * blocks_, kThreads, words(from.keys->data(), counts->data(), n_, blocks_, 8 * pass));
    scan_->launch(rows_ * kBuckets, kThreads, words(counts->data(), totals->data(), blocks_));
    move_->launch(rows_ * blocks_, kThreads,
                  words(from.keys->data(), positions, to.keys->data(), to.positions->data(), counts->data(),
                        totals->data(), n_, blocks_, 8 * pass));
    std::swap(from, to);
  }
  return from;
}

}  // namespace smolder::jit::cuda
