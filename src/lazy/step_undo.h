// Changes of a step beside tensors, as counts of an optimizer: noted as it is recorded, taken back if it fails.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace smolder::lazy {

/// By thread. Functions run, and are dropped, where their thread asks for it, outside of all locks.
class StepUndo {
 public:
  /// `undo` takes back what the step that is being recorded changes; `updates`: an optimizer's step begins, after so
  /// many ops of the step on the CPU. For `Tape::note_undo`.
  static void note(std::function<void()> undo, std::optional<size_t> updates);
  /// How many ops the step on the CPU had then, if one has begun.
  static std::optional<size_t> updates();
  /// The step has run, or was given to a device. Returns what was noted. Called under a tape's lock, as are those
  /// below.
  static std::vector<std::function<void()>> forget();
  /// Has the notes of a step that did not fail dropped.
  static void drop(std::vector<std::function<void()>> undo);
  /// The step failed: what was noted is to be taken back.
  static void fail();
  /// As did some before it.
  static void fail(std::vector<std::function<void()>> before);
  /// Takes back what failed, last first. Whoever looks at what is noted asks first, and who tells of an error.
  static void settle();

 private:
  struct Log;
  static Log& of_thread();
};

}  // namespace smolder::lazy
