// Steps as they ran, for tools that explain them. They are kept only while a tool asks for them: otherwise a sync pays
// for one relaxed load.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "smolder/lazy/recompile.h"
#include "smolder/lazy/trace.h"

namespace smolder::lazy {

/// An op as it was recorded, or ran by itself.
struct RanOp {
  ir::Op op{};
  SourceToken source = 0;
  std::vector<ir::Meta> results = {};
  int64_t bytes = 0;  ///< of operands and results, where it ran by itself
  double ns = 0;      ///< likewise
};

/// A step that ran, and what ended it.
struct RanStep {
  enum How : uint8_t {
    kPlan,      ///< as a plan
    kOneByOne,  ///< its plan could not run, or its device has no plans: op by op
    kEager,     ///< ops of eager mode, up to the next step
  } how = kPlan;
  Device device;
  std::string reason = {};  ///< what ended it: "item", "mark_step"
  SourceToken source = 0;
  std::vector<RanOp> ops = {};  ///< of a plan's instance when it ran first
  double ms = 0;                ///< of the host, from the sync to its end
  std::string note = {};        ///< kOneByOne: why
  /// Set where it was compiled for this run, or recorded anew.
  std::optional<Recompile> recompile = {};

  // kPlan
  std::shared_ptr<const jit::Plan> plan = {};
  std::shared_ptr<const jit::Instance> instance = {};
  std::vector<BufferRef> leaves = {};    ///< what it read, as it was; empty where they were not kept
  std::vector<int64_t> leaf_bytes = {};  ///< of each leaf
  std::vector<DType> leaf_dtypes = {};
  std::vector<uint64_t> parameters = {};
};

/// Process-wide; every member may be called from any thread. There may be several logs at once.
class StepLog {
 public:
  static bool is_on() { return on_.load(std::memory_order_relaxed); }
  /// Begins a log and returns its number. `keep_leaves`: what steps read is kept as well, so that they can be run
  /// again. Until the log ends no step then writes its results over its operands.
  static uint64_t start(bool keep_leaves);
  /// Ends a log and returns what ran, oldest first.
  static std::vector<RanStep> stop(uint64_t log);
  /// Whether a log has not seen this instance run: its ops and leaves are kept once.
  static bool is_new(const jit::Instance* instance);
  static bool keeps_leaves();

  static void note(const RanStep& step);
  static void note_eager(Device device, const RanOp& op);
  /// Why the step that runs next in this thread is compiled, or was recorded anew.
  static void note_recompile(Recompile why);
  static std::optional<Recompile> take_recompile();

 private:
  static std::atomic<bool> on_;
};

/// A trace as the log has it.
std::vector<RanOp> ops_of(const Trace& t);

/// Seconds of each step of a plan in `rounds` runs, after one that is not counted. Operands are what the step read, or
/// stand-ins; results go to memory of their own. Empty where kernels of users would run again, which may do anything.
std::vector<std::vector<double>> time_steps(const RanStep& step, size_t rounds);

}  // namespace smolder::lazy
