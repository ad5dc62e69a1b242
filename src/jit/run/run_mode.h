// How a thread's steps are compiled and run: what modes of compiled functions ask for.
#pragma once

namespace smolder::jit {

struct RunMode {
  /// A result that may be made in several ways of equal worth, as products are, is made in the way that took least time
  /// on the device: steps that run a third time try them, within a share of the time that the program takes.
  bool tunes = false;
  /// All is tried in one run, however long that takes.
  bool at_once = false;
  /// Runs may be captured as graphs and launched as a whole.
  bool replays = true;
  /// Plans are compiled for the sizes of their step, which are constants in their kernels, and serve no others.
  bool constant_sizes = false;
  bool operator==(const RunMode&) const = default;
};

/// Whether modes of compiled functions may tune: SMOLDER_AUTOTUNE is not 0.
bool may_tune();
/// The mode of this thread: within a scope the scope's, else one that tunes where SMOLDER_AUTOTUNE is 1 or at_once.
RunMode run_mode();

class RunModeScope {
 public:
  explicit RunModeScope(const RunMode& mode);
  ~RunModeScope();
  RunModeScope(const RunModeScope&) = delete;
  RunModeScope& operator=(const RunModeScope&) = delete;

 private:
  const RunMode mode_;
  const RunMode* const outer_;
};

}  // namespace smolder::jit
