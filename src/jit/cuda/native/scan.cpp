#include "smolder/jit/cuda/native/scan.h"

#include <algorithm>

#include "smolder/jit/cuda/device/scan.h"
#include "smolder/jit/cuda/native/copy.h"
#include "smolder/jit/cuda/native/device.h"

namespace smolder::jit::cuda {

namespace {

constexpr int kThreads = 256;  // at most: a block that walks along a row has no more than the row needs
constexpr int64_t kOfWarp = 512, kTile = kOfWarp * kThreads / 32;
/// From so many rows on a block walks along each.
constexpr int64_t kManyRows = 512;
/// Columns that are enough for a thread each; else stretches of them, none shorter than the second and not more than
/// the third a column.
constexpr int64_t kManyColumns = 1 << 16, kLeastStretch = 32, kMostStretches = 1024;

class Scan final : public BoundLibrary {
 public:
  Scan(NativeDevice& device, const LibraryView& x, const LibraryView& out, const std::vector<int64_t>& attrs)
      : device_(device), x_(device, x), out_(device, out), item_(static_cast<int64_t>(itemsize(x.dtype))) {
    const int axis = normalize_axis(attrs[1], x.shape.size());
    for (int a = 0; a < axis; ++a) outer_ *= x.shape[a];
    n_ = x.shape[axis];
    for (int a = axis + 1; a < x.shape.size(); ++a) inner_ *= x.shape[a];
    if (numel(x.shape) == 0) return;
    const DType carry = is_floating(x.dtype) ? DType::kFloat64 : x.dtype;
    carry_bytes_ = static_cast<int64_t>(itemsize(carry));
    constexpr const char* kSteps[] = {"Sum", "Product", "Largest", "Smallest"};  // as ir::ScanKind
    const std::string start = typedef_of("Element", x.dtype) + typedef_of("Carry", carry) + kScanStep + "typedef " +
                              kSteps[attrs[0]] + " Step;\n";
    if (inner_ > 1) {
      choose_columns(start + kScanColumns);
    } else {
      is_short_ = n_ <= kOfWarp;
      while (!is_short_ && threads_ > 64 && n_ * 2 <= threads_ / 32 * kOfWarp) threads_ /= 2;
      choose_rows(start + "constexpr int kThreads = " + std::to_string(threads_) + ";\n" + kScanRows);
    }
  }

  bool run(std::span<void* const> addresses) const override {
    if (!scan_) return true;
    BufferRef holders[3];
    const void* const x = x_.at(addresses[0], holders[0]);
    void* const out = out_.at(addresses[1], holders[1]);
    if (pieces_ > 1) holders[2] = device_.allocate(outer_ * pieces_ * inner_ * carry_bytes_);
    const void* const totals = holders[2] ? holders[2]->data() : nullptr;
    const bool is_columns = inner_ > 1;
    Words arguments = words(x, out, totals, outer_, n_);
    if (is_columns) {
      arguments.add(inner_).add(pieces_).add(length_);
    } else {
      const int64_t pack = 4 * item_, alignment = std::min<int64_t>(16, pack);
      const auto both = reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(out);
      const bool whole = (outer_ == 1 || n_ * item_ % alignment == 0) && both % static_cast<uintptr_t>(alignment) == 0;
      arguments.add(pieces_).add(whole);
    }
    const int64_t all = is_columns ? ceil_div(outer_ * pieces_ * inner_, threads_) : outer_ * pieces_;
    if (pieces_ > 1) {
      sum_->launch(all, threads_, arguments);
      scan_sums_->launch(is_columns ? ceil_div(outer_ * inner_, threads_) : outer_, threads_, arguments);
    }
    scan_->launch(is_short_ ? ceil_div(outer_, threads_ / 32) : all, threads_, arguments);
    out_.finish(addresses[1], holders[1]);
    return true;
  }
  bool only_queues() const override { return true; }
  std::string describe() const override {
    return "scan of " + std::to_string(outer_) + " x " + std::to_string(n_) + " x " + std::to_string(inner_);
  }

 private:
  void choose_columns(const std::string& program) {
    const int64_t most = std::clamp<int64_t>(ceil_div(kManyColumns, outer_ * inner_), 1, kMostStretches);
    length_ = std::max(kLeastStretch, ceil_div(n_, most));
    pieces_ = ceil_div(n_, length_);
    sum_ = device_.function(program, "sum_stretches");
    scan_sums_ = device_.function(program, "scan_stretches");
    scan_ = device_.function(program, "scan_columns");
  }
  void choose_rows(const std::string& program) {
    if (!is_short_ && outer_ < kManyRows) pieces_ = ceil_div(n_, kTile);
    sum_ = device_.function(program, "sum_tiles");
    scan_sums_ = device_.function(program, "scan_totals");
    scan_ = device_.function(program, is_short_ ? "scan_short_rows" : pieces_ > 1 ? "scan_tiles" : "scan_rows");
  }

  NativeDevice& device_;
  const DenseOperand x_;
  const DenseResult out_;
  const int64_t item_;
  int64_t outer_ = 1, n_ = 0, inner_ = 1, carry_bytes_ = 0;
  int64_t pieces_ = 1;  ///< tiles of a row or stretches of a column that are scanned side by side
  int64_t length_ = 0;  ///< of a stretch
  int threads_ = kThreads;
  bool is_short_ = false;
  NativeRef sum_, scan_sums_, scan_;
};

}  // namespace

std::unique_ptr<BoundLibrary> make_scan(NativeDevice& device, const LibraryView& x, const LibraryView& out,
                                        const std::vector<int64_t>& attrs) {
  return std::make_unique<Scan>(device, x, out, attrs);
}

}  // namespace smolder::jit::cuda
