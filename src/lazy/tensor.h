// The tensor handle users hold. Its functions are defined where what they need is: handles.cpp, reading.cpp, the op
// table, and autograd.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "smolder/core/dims.h"
#include "smolder/core/dtype.h"
#include "smolder/core/scalar.h"
#include "smolder/lazy/arguments.h"
#include "smolder/lazy/value.h"

namespace smolder {

class Tensor;
class TensorList;

namespace lazy {

/// Where elements are, in elements from the start of the storage.
struct Layout {
  Dims strides;
  int64_t offset = 0;
};

/// The last of the steps from a base to a view: the movement op that was recorded, with its attribute words. Immutable,
/// so that views of views share the steps that they have in common.
struct ViewStep {
  ir::Op op;
  std::vector<int64_t> attrs;
  const ir::Meta* input;  ///< metadata of what the step was applied to
  Layout layout;          ///< of its result, where the base is in row-major order
  mutable std::shared_ptr<const ViewStep> before;
  mutable uint32_t number = 0;  ///< among the views that one call returned, which sets it

  /// Lets go of the steps before one by one: there may be more of them than a stack holds.
  ~ViewStep();
};

/// The maker of a view to which no gradient can follow a write.
enum class ViewOrigin : uint8_t { kOrdinary, kOneOfSeveral, kNoGrad, kInference };

/// State that autograd keeps for a tensor; defined by the layer above.
struct AutogradMeta {
  virtual ~AutogradMeta() = default;
};

/// Memory that is not the runtime's alone: arrays were made of it (exported), or it was theirs before (foreign).
struct External {
  BufferRef buffer;
  Dims strides;  ///< in elements, from the start of the buffer
  bool foreign = false;
};

/// The object a handle points to: the current value, and for views the way back to the base. Shared by
/// copies of the handle, so an in-place op is seen by all of them.
///
/// Handles are used by one thread at a time, as torch's are; only the reference count is atomic.
class TensorImpl {
 public:
  explicit TensorImpl(ValueRef v) : value(std::move(v)) {}
  ~TensorImpl();

  std::atomic<uint32_t> refs{0};
  uint32_t version = 0;       ///< of a base: bumped by each write and move
  uint32_t seen_version = 0;  ///< of a view: the base's version when `value` was read from it
  bool requires_grad = false;
  bool inference = false;  ///< made in inference mode: no gradient may need it, and it is written there alone
  bool detached = false;   ///< shares its base's storage but has a history of its own: no view of it to autograd
  ViewOrigin origin = ViewOrigin::kOrdinary;
  ValueRef value;
  TensorImpl* base = nullptr;  ///< owning; null for who holds the storage. Of a view: that, or a detached tensor
  std::shared_ptr<const ViewStep> steps;  ///< from the base to here; null where there are none. Without a base: a pick
  std::unique_ptr<External> external;     ///< of who holds the storage
  /// In the tensor that holds the storage: its dimensions from the outermost in memory on, where that is not row-major.
  /// The value is row-major all the same: only strides go by this, and the memory that arrays share.
  std::unique_ptr<const Dims> order;
  // Up to here is what recording looks at: one line of the cache.
  std::unique_ptr<AutogradMeta> autograd;
  uint64_t noted_epoch = 0;  ///< step in which the tape noted a write to this
  // Storage that moves, as to where an array sees it, has another version but was not written: histories stay.
  uint32_t moves = 0;       ///< of a base: what `version` counts besides writes
  uint32_t seen_moves = 0;  ///< of a view: the base's when `value` was read from it

  /// Whether elements may lie otherwise than in row-major order.
  bool may_be_window() const {
    if (order || external) return true;
    return base && (steps || base->order || base->external || base->base);
  }
  uint32_t writes() const { return version - moves; }
  bool base_was_written() const { return base->writes() != seen_version - seen_moves; }
  /// The value of this view is up to date.
  void saw_base() {
    seen_version = base->version;
    seen_moves = base->moves;
  }
  /// Its storage was written: views are to be read again.
  void written() {
    ++version;
    changes.fetch_add(1, std::memory_order_relaxed);
  }
  /// Views are to be read again, and nothing was written.
  void moved() {
    written();
    ++moves;
  }
  /// Writes to any storage, and its moves: while the count stays, nothing is to be read again.
  static std::atomic<uint64_t> changes;

  static void* operator new(size_t size);
  static void operator delete(void* p) noexcept;
};

}  // namespace lazy

/// A multi-dimensional array. Copying the handle shares the tensor. Operations record; values are
/// computed at a sync point: reading, `mark_step()`, printing.
class Tensor {
 public:
  /// An undefined tensor.
  Tensor() noexcept : impl_(nullptr) {}
  explicit Tensor(lazy::TensorImpl* impl) : impl_(impl) {
    if (impl_) impl_->refs.fetch_add(1, std::memory_order_relaxed);
  }
  /// The first handle on an implementation that nobody else sees yet.
  static Tensor first(lazy::TensorImpl* impl) {
    impl->refs.store(1, std::memory_order_relaxed);
    Tensor out;
    out.impl_ = impl;
    return out;
  }
  Tensor(const Tensor& o) : Tensor(o.impl_) {}
  Tensor(Tensor&& o) noexcept : impl_(std::exchange(o.impl_, nullptr)) {}
  Tensor& operator=(Tensor o) noexcept {
    std::swap(impl_, o.impl_);
    return *this;
  }
  ~Tensor() {
    // The holder of the only reference can't be overtaken, so it need not subtract atomically.
    if (impl_ && (impl_->refs.load(std::memory_order_acquire) == 1 ||
                  impl_->refs.fetch_sub(1, std::memory_order_acq_rel) == 1)) {
      delete impl_;
    }
  }

  /// Copies `data` (row-major, numel(shape) elements of `dtype`) into a new tensor.
  static Tensor from_data(const void* data, Dims shape, DType dtype);
  /// Takes a filled buffer without copying; nobody else writes to it or keeps reading it.
  static Tensor from_buffer(BufferRef buffer, Dims shape, DType dtype);

  bool defined() const { return impl_ != nullptr; }
  const Dims& shape() const { return meta().shape; }
  DType dtype() const { return meta().dtype; }
  int dim() const { return shape().size(); }
  /// Throws IndexError for an axis out of range, and when there are none.
  int64_t size(int64_t axis) const {
    SMOLDER_CHECK(dim() > 0, IndexError, "Dimension specified as ", axis, " but tensor has no dimensions");
    return shape()[normalize_axis(axis, dim())];
  }
  int64_t numel() const { return smolder::numel(shape()); }
  const ir::Meta& meta() const {
    SMOLDER_CHECK(impl_, RuntimeError, "expected a tensor, got an undefined one");
    return *impl_->value->meta;
  }
  Device device() const {
    meta();  // throws when undefined
    return impl_->value->device;
  }
  /// This on another device: a copy, unless it is there. Its gradient comes back.
  /// `non_blocking`: from pinned memory the host goes on before it has been read.
  Tensor to(Device where, bool non_blocking = false) const;
  /// Whether it is in memory of the host that CUDA's devices read by themselves.
  bool is_pinned() const;
  /// A copy in such memory, which stays where it is; the tensor itself when it is there.
  Tensor pin_memory() const;

  /// Computes everything pending and returns the memory of this tensor, row-major; of one that is on a device, a copy
  /// of that.
  BufferRef materialize(std::string_view reason = "read") const;
  /// The only element as a number; syncs. Throws RuntimeError unless numel() is 1.
  Scalar item() const;
  /// The same as a T, `loss.item<float>()`. Throws RuntimeError where a T does not hold it.
  template <class T>
  T item() const {
    return item().to<T>();
  }
  /// The elements in row-major order, converted to T (float, double, int64_t, bool as uint8_t); syncs.
  template <class T>
  std::vector<T> to_vector() const;

  // -- autograd (defined in the autograd layer)
  bool requires_grad() const { return impl_->requires_grad; }
  /// Throws RuntimeError for integer tensors, and for setting false on a non-leaf.
  Tensor& requires_grad_(bool on = true);
  bool is_leaf() const;
  /// Accumulated gradient; undefined before the first backward.
  Tensor grad() const;
  void set_grad(const Tensor& g);
  /// Accumulates d(this)/d(leaf) into the grad of every leaf. Throws RuntimeError unless this is a
  /// scalar or `gradient` is given.
  void backward(const Tensor& gradient = {}, bool retain_graph = false, bool create_graph = false) const;
  /// The same value without history; shares storage.
  Tensor detach() const;
  /// Cuts this off from its history. Throws RuntimeError for a view.
  Tensor& detach_();

  // Methods of the op table.
#include "smolder/lazy/tensor_methods.inc"  // generated

  lazy::TensorImpl* impl() const { return impl_; }

 private:
  lazy::TensorImpl* impl_;
};

/// Several tensors, borrowed for the time of a call: `cat({a, b}, 1)` or a vector.
class TensorList {
 public:
  TensorList(std::initializer_list<Tensor> list) : size_(list.size()) { data_ = list.begin(); }
  TensorList(const std::vector<Tensor>& list) : data_(list.data()), size_(list.size()) {}
  TensorList(std::span<const Tensor> list) : data_(list.data()), size_(list.size()) {}
  const Tensor* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  const Tensor* data_;
  size_t size_;
};

}  // namespace smolder
