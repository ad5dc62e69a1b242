// Why a step was compiled, or recorded anew: the known step most like it, and where the two first differ.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "smolder/lazy/trace.h"

namespace smolder::lazy {

/// The kind of the first difference.
enum class Cause : uint8_t {
  kNew,        ///< nothing like it is known
  kShape,      ///< an extent that is structural, a rank, or a size that a guard of the known plan refuses
  kDType,      ///< of a tensor, of an argument, or the category of a number
  kAttribute,  ///< an argument that is neither a tensor nor a run-time number
  kTopology,   ///< which ops there are, and what they take from each other
  kLiveness,   ///< which results are held when the step ends
  kMode,       ///< autocast, precision, or what runs an op
};
std::string_view name(Cause cause);

struct Recompile {
  Cause cause = Cause::kNew;
  bool behind = false;   ///< it was compiled while earlier steps ran op by op
  bool compiled = true;  ///< false: recorded anew, and run by a known plan
  std::string reason;    ///< "sum: dim is [1], was [0]"
  std::string where;     ///< the user's line that differs; of a new step that of its first op
  std::string before;    ///< the line there in the nearest step; empty where there is none
  double milliseconds = 0;
  std::vector<jit::BuiltKernel> kernels;  ///< that were in no cache

  /// All of that as text of a few lines.
  std::string text() const;
};

/// The last 256 of the process, oldest first. Steps that were only recorded anew are there while they are logged.
std::vector<Recompile> recompiles();
void forget_recompiles();

/// The choice of what is written to stderr: SMOLDER_LOGS holds `recompiles`, or `recompiles_verbose` for steps that
/// were new, or only recorded anew, as well.
enum class RecompileLog : uint8_t { kOff, kRecompiles, kVerbose };
RecompileLog recompile_log();
void set_recompile_log(RecompileLog log);

/// The action when a step is compiled: nothing, a warning, or a RuntimeError when the step has run.
enum class OnRecompile : uint8_t { kIgnore, kWarn, kRaise };
OnRecompile on_recompile();
void set_on_recompile(OnRecompile action);

/// A step that no known plan runs.
struct Uncovered {
  const Trace& trace;
  std::span<const uint32_t> produced;
  std::span<const std::shared_ptr<Trace>> known;  ///< oldest first; may hold `trace`
  const Trace* last = nullptr;                    ///< that ran before; null for the first
  const jit::Plan* refused = nullptr;             ///< of the same structure, whose guards refuse these sizes
  bool constant_sizes = false;                    ///< plans for its sizes alone are wanted
};
/// Cause, reason and lines. Looks at the latest 32 traces that have plans.
Recompile explain(const Uncovered& step);
/// The same of a trace that was recorded anew, for which every size counts.
Recompile explain_recording(const Trace& trace, std::span<const std::shared_ptr<Trace>> known, const Trace* last);

/// The first difference of two steps, sizes and what is held at the end among it; empty where nothing does. What
/// `before` held is the `produced` of its first plan.
std::optional<Recompile> compare(const Trace& now, std::span<const uint32_t> produced, const Trace& before);

/// Counts, keeps and logs it, stores it in the kernel cache for `smolder cache why`, and warns. Returns what to raise
/// once the step has run; empty for nothing.
std::string tell(Recompile what);

/// Under what an op is recorded that explains ops which the program doesn't call: a bit, and the dtype of autocast.
uint8_t recording_modes(DeviceType device);

}  // namespace smolder::lazy
