// Recording: what every generated op function calls.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "smolder/core/source_line.h"
#include "smolder/ir/op.h"
#include "smolder/lazy/lock.h"
#include "smolder/lazy/modes.h"
#include "smolder/lazy/operand.h"
#include "smolder/lazy/tensor.h"

namespace smolder::eager {
struct Array;
}

namespace smolder::lazy {

/// `a` in memory of its own: a value is row-major and starts at its buffer, while eager results may be views.
eager::Array owned(const eager::Array& a, Device device = {});

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

/// Counts what does not run as a part of a compiled step, and warns of it once a line: what it is, and what becomes of
/// it.
void tell_fallback(const std::string& what, std::string_view consequence, SourceToken source);

}  // namespace smolder::lazy

namespace smolder {

/// Ends a step: computes every pending value that somebody holds, and frees the rest.
void mark_step();
/// The same where the library needs it, which says nothing of whether the program marks its steps.
void run_recorded(std::string_view reason);

/// A natural end of a step, as an optimizer's is: computes what is pending unless the program marks its
/// steps itself, in which case it says nothing new.
void step_boundary(std::string_view reason);

}  // namespace smolder
