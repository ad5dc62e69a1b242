// Values: what a trace computes. Immutable; a tensor handle points to one and an in-place op makes it
// point to another.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "smolder/core/buffer.h"
#include "smolder/core/device.h"
#include "smolder/ir/op.h"

namespace smolder::lazy {

/// The one Meta equal to `m`, at an address that is valid for ever.
const ir::Meta* intern(const ir::Meta& m);

/// A value of the trace being recorded (pending), or one that has memory (materialised), or one whose
/// step failed (neither: the tape's `failure` says why), or a stand-in for external memory or for elements of a batch
/// (neither).
///
/// `refs` is atomic; every other member is read and written under the tape's lock, but `meta`, which
/// never changes, and `buffer`, which is written once, before the sync that fills it returns.
struct Value {
  std::atomic<uint32_t> refs{0};
  /// Number in the trace `epoch`: as a leaf or as a result.
  uint32_t index = 0;
  uint64_t epoch = 0;
  const ir::Meta* meta = nullptr;
  BufferRef buffer;
  bool pending = false;
  bool external = false;       ///< stands for memory that somebody else sees too: see storage.h
  bool batched = false;        ///< a BatchedValue, which has no memory of its own: see batch.h
  bool wrapper = false;        ///< a WrapperValue, which has no memory at all: see wrapper.h
  bool pooled = true;          ///< once dead it waits to be used again
  Device device;               ///< where its memory is
  uint32_t tape_refs = 0;      ///< how many of `refs` are the tape's own
  Value* next_free = nullptr;  ///< in the free list, or among the dead that no ring had room for

  void* data() const { return buffer ? buffer->data() : nullptr; }
};

/// Hands a dead value to the tape; lock-free, callable from any thread and under any lock.
void bury(Value* v) noexcept;

/// Lets go of a WrapperValue that is dead.
void delete_wrapper(Value* value) noexcept;

/// Owning pointer to a Value.
class ValueRef {
 public:
  ValueRef() = default;
  explicit ValueRef(Value* v) : v_(v) {
    if (v_) v_->refs.fetch_add(1, std::memory_order_relaxed);
  }
  /// The first reference to a value that nobody else sees yet.
  static ValueRef first(Value* v) {
    v->refs.store(1, std::memory_order_relaxed);
    ValueRef out;
    out.v_ = v;
    return out;
  }
  ValueRef(const ValueRef& o) : ValueRef(o.v_) {}
  ValueRef(ValueRef&& o) noexcept : v_(std::exchange(o.v_, nullptr)) {}
  ValueRef& operator=(ValueRef o) noexcept {
    std::swap(v_, o.v_);
    return *this;
  }
  ~ValueRef() { reset(); }
  void reset() {
    if (!v_) return;
    // Whoever holds the only reference can't be overtaken: no atomic subtraction is needed then.
    if (v_->refs.load(std::memory_order_acquire) == 1) {
      v_->refs.store(0, std::memory_order_relaxed);
      bury(v_);
    } else if (v_->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      bury(v_);
    }
    v_ = nullptr;
  }
  Value* get() const { return v_; }
  Value* operator->() const { return v_; }
  Value& operator*() const { return *v_; }
  explicit operator bool() const { return v_ != nullptr; }

 private:
  Value* v_ = nullptr;
};

}  // namespace smolder::lazy
