// Functions that are recorded apart from the program's steps, a captured one (capture.h) or a branch of control flow
// (branch.h), as generators, tapes and views know them: they say what happens to them meanwhile.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "smolder/core/device.h"
#include "smolder/core/source_line.h"
#include "smolder/lazy/lock.h"

namespace smolder {
class Generator;
class Tensor;
}  // namespace smolder

namespace smolder::lazy {

class Operand;

/// The seed and the offset of a generator.
using GeneratorState = std::pair<uint64_t, uint64_t>;

/// A captured function.
class CaptureObserver {
 public:
  virtual ~CaptureObserver() = default;
  /// The one of this thread; null outside.
  static CaptureObserver* current() { return current_; }

  /// Something that a recorded step cannot do: it needs the program. The first is kept.
  virtual void note_break(std::string_view reason, SourceToken source) = 0;
  /// `state` is what the generator was at before it gave numbers, and `offset` what it is at then.
  virtual void note_draw(Generator* g, GeneratorState state, uint64_t offset) = 0;
  /// It goes to another offset of its stream.
  virtual void note_move(Generator* g, GeneratorState state, uint64_t offset) = 0;
  /// The generator is about to go from `before` to `state`.
  virtual void note_state(Generator* g, GeneratorState before, GeneratorState state) = 0;

 protected:
  static SMOLDER_THREAD_LOCAL CaptureObserver* current_;  ///< one for all libraries of the process, so not inline
};

/// A branch.
class BranchObserver {
 public:
  virtual ~BranchObserver() = default;
  /// The one that this thread records; null outside of branches.
  static BranchObserver* current() { return current_; }

  /// Operands as the branch's tape is to see them.
  virtual std::vector<Operand> inside(std::span<const Operand> operands) = 0;
  virtual void note_draw(Generator* g, GeneratorState state) = 0;
  /// Throws RuntimeError when `t` is not of the branch's tape, or is an operand or a view of one.
  virtual void check_write(const Tensor& t) const = 0;
  [[noreturn]] virtual void refuse_read(std::string_view reason) const = 0;
  [[noreturn]] virtual void refuse_device(Device device) const = 0;

 protected:
  static SMOLDER_THREAD_LOCAL BranchObserver* current_;  ///< likewise
};

/// Notes a break where there is a capture.
inline void break_capture(std::string_view reason, SourceToken source) {
  if (CaptureObserver* const c = CaptureObserver::current()) [[unlikely]]
    c->note_break(reason, source);
}

}  // namespace smolder::lazy
