// Copies between strided views of a device's memory.
#pragma once

#include <vector>

#include "smolder/jit/cuda/native/device.h"

namespace smolder::jit::cuda {

/// The axes of tensors that are walked side by side, as few as say the same.
struct Axes {
  Dims extents;
  std::vector<Dims> strides;  ///< of each tensor
  Axes(const Dims& shape, const std::vector<Dims>& strides);
};

/// A copy between views of one shape that do not overlap.
class StridedCopy {
 public:
  StridedCopy(NativeDevice& device, const LibraryView& from, const LibraryView& to);
  /// `failed`: a word on the device; where it is other than 0 by then, nothing is copied.
  void run(const void* from, void* to, const uint32_t* failed = nullptr) const;

 private:
  NativeDevice& device_;
  Axes axes_;
  int64_t item_, elements_;
};

/// An operand as a kernel wants it: row-major, in memory of its own if it does not lie so already.
class DenseOperand {
 public:
  DenseOperand(NativeDevice& device, const LibraryView& view);
  /// `holder` keeps the copy, if there is one.
  const void* at(const void* address, BufferRef& holder) const;
  /// The view of what `at` gives.
  const LibraryView& view() const { return dense_; }

 private:
  NativeDevice& device_;
  LibraryView view_, dense_;
};

/// A row-major result, likewise: `at` says where to write it, `finish` takes it to where it belongs. `begin` copies
/// what is there already, for those that are updated.
class DenseResult {
 public:
  DenseResult(NativeDevice& device, const LibraryView& view);
  void* at(void* address, BufferRef& holder) const;
  void begin(const void* address, const BufferRef& holder) const;
  void finish(void* address, const BufferRef& holder) const;
  const LibraryView& view() const { return dense_; }

 private:
  NativeDevice& device_;
  LibraryView view_, dense_;
};

/// slice_write: the first operand, with the second in place of a part of it.
class SliceWrite final : public BoundLibrary {
 public:
  SliceWrite(NativeDevice& device, const std::vector<LibraryView>& inputs, const LibraryView& out,
             std::span<const int64_t> attrs);
  bool only_queues() const override { return true; }
  bool run(std::span<void* const> addresses) const override { return queue(addresses, {}); }
  bool queue(std::span<void* const> addresses, const Signals& given) const override;
  std::string describe() const override;

 private:
  struct Window {
    LibraryView view;
    int64_t offset = 0;  ///< bytes
  };
  static Window window_of(const LibraryView& source, LibraryView out, std::span<const int64_t> attrs);
  Window window_;
  StridedCopy whole_, part_;
  int64_t elements_;
};

/// Copies of rows, whose elements lie side by side at both ends: as many to a launch as an argument has room for.
class RowCopies {
 public:
  RowCopies(NativeDevice& device, int64_t item) : device_(device), item_(item) {}
  /// Adds a copy between views of one shape and this item, if it is one of rows; they do not overlap.
  bool add(const Axes& axes);
  /// Where each that was added reads and writes.
  struct Place {
    const void* from;
    void* to;
  };
  void run(std::span<const Place> places) const;

 private:
  /// Counted in bytes, but for the rows.
  struct Rows {
    int64_t count = 1, length = 0, from_step = 0, to_step = 0;
  };
  void launch(std::span<const Place> places, const std::vector<size_t>& which, int64_t item) const;
  NativeDevice& device_;
  int64_t item_;
  std::vector<Rows> all_;
};

/// wide_cat: each operand copied to its part of the result.
class WideCat final : public BoundLibrary {
 public:
  WideCat(NativeDevice& device, const std::vector<LibraryView>& inputs, const LibraryView& out,
          std::span<const int64_t> attrs);
  bool only_queues() const override { return true; }
  bool run(std::span<void* const> addresses) const override;
  std::string describe() const override;

 private:
  struct Part {
    size_t input;
    int64_t offset;  ///< bytes
  };
  RowCopies rows_;
  std::vector<Part> of_rows_, others_;
  std::vector<StridedCopy> copies_;  ///< of the others
};

}  // namespace smolder::jit::cuda
