#include "smolder/jit/cuda/native/scatter.h"

#include <bit>
#include <optional>

#include "smolder/core/error.h"
#include "smolder/ir/builder.h"
#include "smolder/jit/cuda/device/report.h"
#include "smolder/jit/cuda/device/scatter.h"
#include "smolder/jit/cuda/native/copy.h"
#include "smolder/jit/cuda/native/device.h"
#include "smolder/jit/cuda/native/radix.h"

namespace smolder::jit::cuda {

namespace {

constexpr int kThreads = 256, kCrowdedThreads = 64;
/// Rows a place from which on its threads are enough.
constexpr int64_t kCrowd = 16;
constexpr int64_t kFewRows = 512, kFewElements = 1024, kFewBlocks = int64_t{1} << 15;
/// A column this short is walked by one thread, where there are so many.
constexpr int64_t kShortColumn = 32, kManyColumns = 4096;
/// Places of a block's own tables, elements that it adds up in them at least, and blocks that do.
constexpr int64_t kTable = 4096, kTableElements = 1 << 13, kTableBlocks = 512;

const char* combine_of(ir::Op op, const std::vector<int64_t>& attrs) {
  if (op == ir::Op::kIndexSet) return "Set";
  if (op != ir::Op::kScatterInto) return "Add";
  constexpr const char* kNames[] = {"Set", "Multiply", "Largest", "Smallest"};  // as ir::ScatterKind
  return kNames[attrs[0]];
}

std::string program_start(DType element, DType index, bool wide_keys, const char* combine, bool guarded) {
  return guard_text(guarded) + typedef_of("Element", element) + typedef_of("Index", index) + "typedef " +
         (wide_keys ? "u64" : "u32") + " Key;\nconstexpr int kFewRows = " + std::to_string(kFewRows) +
         ", kFewElements = " + std::to_string(kFewElements) + ";\n" + kReport + kScatterChecked + kScatterCombine +
         "typedef " + combine + " Combine;\n" + kScatterKey;
}

std::string table_text() { return "constexpr int kTable = " + std::to_string(kTable) + ";\n" + kScatterTables; }

/// Whether sums have the same bits in any order, and can be made by threads that do not wait for each other.
bool adds_in_any_order(ir::Op op, DType t) {
  const bool adds = op == ir::Op::kScatterAdd || op == ir::Op::kIndexAdd;
  return adds && !is_floating(t) && (t == DType::kBool || itemsize(t) >= 4);
}

/// Every index is out of range of an axis without elements.
void report_first(NativeDevice& device, DType type, const void* index, uint32_t* error) {
  device.function(typedef_of("Index", type) + kReport + kScatterReportFirst, "report_first")
      ->launch(1, 1, words(index, error));
}

/// Common to both kinds: the result begins as the first operand, and keys are sorted.
class Scatter : public BoundLibrary {
 public:
  Scatter(NativeDevice& device, ir::Op op, const std::vector<LibraryView>& inputs, const LibraryView& out, int axis,
          bool guarded)
      : device_(device),
        op_(op),
        axis_(axis),
        start_(device, inputs[0], out),
        n_(out.shape[axis]),
        guarded_(guarded),
        index_type_(inputs[1].dtype) {
    const DType index = inputs[1].dtype;
    SMOLDER_CHECK(index == DType::kInt64 || index == DType::kInt32, TypeError, "indices must be int64 or int32, got ",
                  name(index));
  }
  bool has_error_slot() const override { return true; }
  bool only_queues() const override { return true; }
  bool run(std::span<void* const> addresses) const override { return queue(addresses, {}); }
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
  void report_all(const void* index, uint32_t* error) const {
    if (error) report_first(device_, index_type_, index, error);
  }
  cuda::Words with_guard(cuda::Words arguments, const Signals& given) const {
    if (guarded_) arguments.add(given.failed);
    return arguments;
  }

  NativeDevice& device_;
  const ir::Op op_;
  const int axis_;
  const StridedCopy start_;
  const int64_t n_;
  const bool guarded_;
  const DType index_type_;
  int64_t count_ = 0;  ///< of the index's elements
  int64_t columns_ = 1, length_ = 1, inner_ = 1, absent_ = 0;
  bool wide_ = false;
};

/// index_add and index_set.
class ScatterRows final : public Scatter {
 public:
  ScatterRows(NativeDevice& device, ir::Op op, const std::vector<LibraryView>& inputs, const LibraryView& out, int axis,
              const char* combine, bool guarded)
      : Scatter(device, op, inputs, out, axis, guarded),
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
    const std::string start = program_start(out.dtype, inputs[1].dtype, wide_, combine, guarded);
    if (!few_ && adds_in_any_order(op, out.dtype)) {
      const bool fits = out.dtype != DType::kBool && n_ * width_ <= kTable && count_ >= kCrowd * n_;
      table_parts_ = fits ? std::min(kTableBlocks, ceil_div(count_ * width_, kTableElements)) : 0;
      const std::string program = start + kScatterAtomic + kScatterAddRows + (fits ? table_text() : "");
      add_ = device.function(program, fits ? "add_rows_in_tables" : "add_rows_in_any_order");
      return;
    }
    const std::string program = start + kScatterRows;
    crowded_ = !few_ && op != ir::Op::kIndexSet && count_ >= kCrowd * n_;
    const std::string entry = few_ ? "write_few_rows" : crowded_ ? "write_crowded_rows" : "write_rows";
    write_ = device.function(program, entry);
    write_whole_ = device.function(program, entry + "_whole");
    if (few_) return;
    make_keys_ = device.function(program, "make_keys");
    radix_.emplace(make_radix());
  }

  bool queue(std::span<void* const> addresses, const Signals& given) const override {
    uint32_t* const error = given.error;
    start_.run(addresses[0], addresses[3]);
    if (n_ == 0 && count_ > 0) report_all(addresses[1], error);
    if (!write_ && !add_) return true;
    BufferRef source_holder, result_holder;
    const void* const source = source_.at(addresses[2], source_holder);
    void* const result = result_.at(addresses[3], result_holder);
    result_.begin(addresses[3], result_holder);
    if (add_) {
      const int64_t blocks = table_parts_ ? outer_ * table_parts_ : ceil_div(outer_ * count_ * width_, kThreads);
      add_->launch(blocks, kThreads,
                   with_guard(words(addresses[1], source, result, error, outer_, count_, n_, width_, table_parts_,
                                    index_.extents.size(), index_.extents, index_.strides[0]),
                              given));
      result_.finish(addresses[3], result_holder);
      return true;
    }
    const bool whole = width_ * item_ % 16 == 0 &&
                       (reinterpret_cast<uintptr_t>(source) | reinterpret_cast<uintptr_t>(result)) % 16 == 0;
    const NativeFunction& write = whole ? *write_whole_ : *write_;
    const int64_t packs = whole ? width_ * item_ / 16 : width_;
    if (few_) {
      write.launch(outer_ * count_ * ceil_div(packs, kThreads), kThreads,
                   with_guard(words(addresses[1], source, result, error, count_, n_, width_, index_.extents.size(),
                                    index_.extents, index_.strides[0]),
                              given),
                   {.waits = true});
    } else {
      const RadixSort::Sorted sorted = sort(*radix_, make_keys_, addresses[1], index_, error);
      const int64_t threads = crowded_ ? outer_ * n_ * packs : outer_ * count_ * packs;
      const int block = crowded_ ? kCrowdedThreads : kThreads;
      write.launch(
          ceil_div(threads, block), block,
          with_guard(words(sorted.keys->data(), sorted.positions->data(), source, result, outer_, count_, n_, width_),
                     given));
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
  int64_t table_parts_ = 0;  ///< blocks that have tables, for each of the outer positions
  NativeRef write_, write_whole_, make_keys_, add_;
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
                  int axis, const char* combine, bool guarded)
      : Scatter(device, op, inputs, out, axis, guarded),
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
    const std::string program = program_start(out.dtype, inputs[1].dtype, wide_, combine, guarded) + kScatterElements;
    if (adds_in_any_order(op, out.dtype)) {
      write_ = device.function(program + kScatterAtomic + kScatterAddElements, "add_in_any_order");
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

  bool queue(std::span<void* const> addresses, const Signals& given) const override {
    uint32_t* const error = given.error;
    void *const index = addresses[1], *const source = addresses[2], *const result = addresses[3];
    start_.run(addresses[0], result);
    if (n_ == 0 && count_ > 0) report_all(index, error);
    if (!write_) return true;
    if (walks_) {
      const Axes& x = columns_axes_;
      write_->launch(
          ceil_div(columns_, kThreads), kThreads,
          with_guard(words(index, source, result, error, columns_, length_, n_, index_step_, source_step_, result_step_,
                           x.extents.size(), x.extents, x.strides[0], x.strides[1], x.strides[2]),
                     given));
      return true;
    }
    const Axes& x = elements_;
    RadixSort::Sorted sorted;
    if (radix_) sorted = sort(*radix_, make_keys_, index, x, error);
    write_->launch(ceil_div(count_, kThreads), kThreads,
                   with_guard(words(radix_ ? sorted.keys->data() : nullptr, radix_ ? sorted.positions->data() : nullptr,
                                    index, source, result, error, count_, n_, length_, inner_, absent_, result_step_,
                                    x.extents.size(), x.extents, x.strides[0], x.strides[1], x.strides[2]),
                              given));
    return true;
  }

 private:
  const Axes elements_, columns_axes_;
  const int64_t index_step_, source_step_, result_step_;
  bool walks_ = false;
  NativeRef write_, make_keys_;
  std::optional<RadixSort> radix_;
};

class IndexCheck final : public BoundLibrary {
 public:
  IndexCheck(NativeDevice& device, const LibraryView& index, int64_t n)
      : device_(device), index_(index.shape, {index.strides}), type_(index.dtype), n_(n), count_(numel(index.shape)) {
    if (count_ == 0 || n == 0) return;
    look_ = device.function(typedef_of("Index", type_) + kReport + kScatterChecked + kScatterLook, "look_at_index");
  }
  bool has_error_slot() const override { return true; }
  bool only_queues() const override { return true; }
  bool run(std::span<void* const> addresses) const override { return queue(addresses, {}); }
  bool queue(std::span<void* const> addresses, const Signals& given) const override {
    if (look_) {
      look_->launch(
          ceil_div(count_, kThreads), kThreads,
          words(addresses[0], given.error, count_, n_, index_.extents.size(), index_.extents, index_.strides[0]),
          {.waits = true});
    } else if (count_ > 0) {
      report_first(device_, type_, addresses[0], given.error);
    }
    return true;
  }
  std::string describe() const override { return "look at " + std::to_string(count_) + " indices"; }

 private:
  NativeDevice& device_;
  const Axes index_;
  const DType type_;
  const int64_t n_, count_;
  NativeRef look_;
};

}  // namespace

bool is_scatter(ir::Op op) {
  return op == ir::Op::kIndexAdd || op == ir::Op::kIndexSet || op == ir::Op::kScatterAdd || op == ir::Op::kScatterInto;
}

std::unique_ptr<BoundLibrary> make_index_check(NativeDevice& device, const LibraryView& index, int64_t n) {
  return std::make_unique<IndexCheck>(device, index, n);
}

std::unique_ptr<BoundLibrary> make_scatter(NativeDevice& device, ir::Op op, const std::vector<LibraryView>& inputs,
                                           const LibraryView& out, const std::vector<int64_t>& attrs, bool guarded) {
  const char* const combine = combine_of(op, attrs);
  const int64_t axis_word = attrs[op == ir::Op::kScatterInto ? 1 : 0];
  if (op == ir::Op::kIndexAdd || op == ir::Op::kIndexSet) {
    const int axis = normalize_axis(axis_word, out.shape.size());
    return std::make_unique<ScatterRows>(device, op, inputs, out, axis, combine, guarded);
  }
  std::vector<LibraryView> with_axes;
  for (const LibraryView& v : inputs) with_axes.push_back(with_axis(v));
  const LibraryView result = with_axis(out);
  const int axis = normalize_axis(axis_word, result.shape.size());
  return std::make_unique<ScatterElements>(device, op, with_axes, result, axis, combine, guarded);
}

}  // namespace smolder::jit::cuda
