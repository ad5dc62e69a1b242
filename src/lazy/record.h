// Recording: what every generated op function calls.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "smolder/core/source_line.h"
#include "smolder/ir/op.h"
#include "smolder/lazy/lock.h"
#include "smolder/lazy/tensor.h"

namespace smolder::eager {
struct Array;
}

namespace smolder::lazy {

/// `a` in memory of its own: a value is row-major and starts at its buffer, while eager results may be views.
eager::Array owned(const eager::Array& a, Device device = {});

/// Metadata of a run-time number, by category.
const ir::Meta* number_meta(Category c);

/// One operand of a call: a tensor, a run-time number, or an absent optional. Two words, which travel in registers:
/// in memory they would be written in parts and read at once, which waits for the writes.
class Operand {
 public:
  enum Kind : uint32_t { kTensor, kNumber, kNone };
  Operand(const Tensor& t) : word_(reinterpret_cast<uint64_t>(t.impl())), kind_(kTensor) {
    SMOLDER_CHECK(word_, RuntimeError, "expected a tensor, got an undefined one");
  }
  Operand(Scalar s) : word_(s.bits()), kind_(kNumber), category_(static_cast<uint32_t>(s.category())) {}
  static Operand none() { return Operand(); }
  /// The tensor, or absent when it is undefined.
  static Operand optional(const Tensor& t) { return t.defined() ? Operand(t) : none(); }

  Kind kind() const { return kind_; }
  TensorImpl* impl() const { return reinterpret_cast<TensorImpl*>(word_); }
  Scalar number() const { return Scalar::from_bits(word_, category()); }
  Category category() const { return static_cast<Category>(category_); }
  uint64_t bits() const { return word_; }
  /// Null when absent.
  const ir::Meta* meta() const {
    return kind_ == kTensor ? impl()->value->meta : kind_ == kNumber ? number_meta(category()) : nullptr;
  }

 private:
  Operand() : word_(0), kind_(kNone) {}
  uint64_t word_;  ///< a TensorImpl's address, or a number's bits
  Kind kind_;
  uint32_t category_ = static_cast<uint32_t>(Category::kFloat);
};
static_assert(std::is_trivially_copyable_v<Operand> && sizeof(Operand) == 16);

/// Records `op` on the tape and sets `outputs[0 .. num_outputs)`. Shape and dtype errors are thrown
/// here, and leave the tape as it was. In eager mode the op runs instead.
void record(ir::Op op, std::span<const Operand> operands, std::span<const int64_t> attrs, Tensor* outputs);

/// The same, then writes the result into `self` (its storage and all views of it see it). Throws
/// RuntimeError when the result's shape is not self's, or self is a leaf that requires grad.
void record_inplace(ir::Op op, std::span<const Operand> operands, std::span<const int64_t> attrs, Tensor& self);

/// The second half of that: writes what an op called `name` made of self into it.
void write_inplace(std::string_view name, Tensor& self, Tensor result);

/// Makes `self` hold what `source` holds, as an in-place write: shapes and dtypes must be equal.
void assign(const Tensor& self, const Tensor& source);

/// Called by `record` when grad mode is on and an operand requires grad. Installed by autograd.
using GradHook = void (*)(ir::Op op, std::span<const Operand> operands, std::span<const int64_t> attrs,
                          Tensor* outputs);
void set_grad_hook(GradHook hook);

/// Thread-local modes.
bool grad_enabled();
void set_grad_enabled(bool on);
/// In inference mode, which turns gradients off too, new tensors are marked as none that a gradient may need.
bool inference_mode_enabled();
void set_inference_mode_enabled(bool on);
bool eager_enabled();
void set_eager_enabled(bool on);

/// Where ops without tensor operands make their results: the CPU at first. Of each thread. Where it was set to
/// `kCurrentCuda` it is the device of CUDA that is the current one then.
Device creation_device();
/// The same as it was set.
Device creation_mode();
void set_creation_device(Device device);
inline constexpr Device kCurrentCuda{DeviceType::kCUDA, -1};
class DeviceMode {
 public:
  explicit DeviceMode(Device device);
  /// The device of an operand, or of the first of a list: what an op makes besides lies where its operands do.
  explicit DeviceMode(const Tensor& operand);
  explicit DeviceMode(TensorList operands);
  ~DeviceMode();
  DeviceMode(const DeviceMode&) = delete;

 private:
  Device before_;
};

/// The name of the history's nodes that a scope records, in place of their ops'. The outermost scope names them.
class HistoryName {
 public:
  explicit HistoryName(const char* name) : outermost_(!current_) {
    if (outermost_) current_ = name;
  }
  ~HistoryName() {
    if (outermost_) current_ = nullptr;
  }
  HistoryName(const HistoryName&) = delete;
  static const char* current() { return current_; }

 private:
  inline static SMOLDER_THREAD_LOCAL const char* current_ = nullptr;
  bool outermost_;
};

/// Sets a thread-local mode for a scope.
class GradMode {
 public:
  explicit GradMode(bool on) : before_(grad_enabled()) { set_grad_enabled(on); }
  ~GradMode() { set_grad_enabled(before_); }
  GradMode(const GradMode&) = delete;

 private:
  bool before_;
};
class EagerMode {
 public:
  explicit EagerMode(bool on = true) : before_(eager_enabled()) { set_eager_enabled(on); }
  ~EagerMode() { set_eager_enabled(before_); }
  EagerMode(const EagerMode&) = delete;

 private:
  bool before_;
};

/// Counts what does not run as a part of a compiled step, and warns of it once a line: what it is, and what becomes of
/// it.
void tell_fallback(const std::string& what, std::string_view consequence, SourceToken source);

}  // namespace smolder::lazy

namespace smolder {

/// Ends a step: computes every pending value that somebody holds, and frees the rest.
void mark_step();

/// A natural end of a step, as an optimizer's is: computes what is pending unless the program marks its
/// steps itself, in which case it says nothing new.
void step_boundary(std::string_view reason);

}  // namespace smolder
