// Trials of a step's products, in between its runs; see eager/cuda/tuned_products.h for what is tried.
#pragma once

#include <cstdint>

#include "smolder/jit/run/run_mode.h"

namespace smolder::jit::cuda {

/// An instance's state of tuning.
struct InstanceTuning {
  int runs = 0;             ///< before any was a trial
  bool pending = false;     ///< counted among those that have something left to try
  bool done = false;        ///< nothing is left to try
  uint64_t generation = 0;  ///< of the products in its graphs

  InstanceTuning() = default;
  ~InstanceTuning() { set_pending(false); }
  InstanceTuning(const InstanceTuning&) = delete;
  void set_pending(bool now);
};

/// Lets products be made by what was tuned, here or before, and be kept in the kernel cache. Once; what fails is told.
void use_tuned_kernels();
/// While it was paused more often than resumed nothing is tried, so bits stay: for comparing runs.
void pause_trials();
void resume_trials();
/// Whether the run that begins now should try algorithms.
bool wants_trials(InstanceTuning& tuning, const RunMode& mode);
/// Seconds that it may take for that.
double seconds_for_trials(const RunMode& mode);
/// It took so many: others have to wait until these are a small share of the time. `done`: nothing is left to try.
void note_trials(InstanceTuning& tuning, double seconds, bool done);

}  // namespace smolder::jit::cuda
