// A plan is a compiled step: a symbolic program of fused kernels and library calls with every
// intermediate placed in one arena. An instance binds it to sizes; running an instance binds addresses
// and numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "smolder/core/buffer.h"
#include "smolder/core/hash.h"
#include "smolder/core/precision.h"
#include "smolder/ir/graph.h"

namespace smolder::jit {

/// Where a plan runs and how exactly, and switches that tests and tools flip, which change no bit of any result; part
/// of the plan key.
struct CompileOptions {
  Device device = {};
  Precision precision = {};  ///< of libraries, where some compute for the device; not so on the CPU
  bool fuse = true;          ///< off: one kernel a primitive
  bool simplify = true;      ///< off: no rewrite rules, CSE
};

/// The way to one requested output.
struct OutputInfo {
  DType dtype;
  ir::SymDims shape;
  /// >= 0: the output is the same bytes as that leaf / that earlier output (a contiguous reshape);
  /// nothing is written and the caller shares the buffer.
  int same_as_leaf = -1;
  int same_as_output = -1;
  bool unsure = false;  ///< on a device: not what it should be where an index of the step is out of range
};

/// The plan reads a leaf for the last time no later than it writes an output, element for element: the caller may pass
/// the leaf's buffer for the output where nobody else holds it. A leaf serves one output.
struct Donation {
  int leaf = 0, output = 0;
  bool keeps = true;  ///< the leaf is as it was where an index is out of range
};

/// An op that the user recorded.
struct OpSite {
  uint32_t source = 0;  ///< source token
  std::string op;
  bool operator==(const OpSite&) const = default;
};

/// An op that runs as an eager kernel.
struct FallbackSite : OpSite {
  std::string missing;  ///< what would run it if it were installed, if something would
};

/// An op whose index is out of range.
struct IndexReport : OpSite {
  int64_t index = 0, extent = -1;  ///< the index is not in [0, extent); an extent of -1: which it was is not known
};

/// A kernel that was in no cache when a plan was made.
struct BuiltKernel {
  std::string name;   ///< of the ops that it holds
  Hash128 key;        ///< of its row in the kernel cache
  std::string where;  ///< the user's line that it is told by
  double milliseconds = 0;
};

/// Everything a run needs that may change between two runs of one instance.
struct RunArguments {
  std::span<void* const> leaves;         ///< base address of each leaf, by leaf number
  std::span<const uint64_t> parameters;  ///< eight bytes each, by parameter number
  std::span<void* const> outputs;        ///< where each output goes; ignored for same_as_* outputs
  std::vector<bool>* written = nullptr;  ///< a run that throws says of each output whether it may have written it
  uint64_t* ticket = nullptr;            ///< of a run on a device that looks at indices: see steps_passed()
};

class Instance;

class Plan : public std::enable_shared_from_this<Plan> {
 public:
  /// Compiles an op-level (or primitive-level) graph: decompose, simplify, fuse, schedule, place,
  /// emit. Kernels come from the cache where known. Throws before anything has been launched.
  static std::shared_ptr<const Plan> compile(const ir::Graph& graph, const CompileOptions& options = {});
  virtual ~Plan() = default;

  /// A number that no other plan of the process has; 1 or more. Spans of the profile say by it whose they are.
  virtual uint64_t id() const = 0;
  virtual std::span<const OutputInfo> outputs() const = 0;
  /// In the order in which they are to be made: what updates a leaf comes before what merely could have its memory, so
  /// that parameters stay where they are from step to step.
  virtual std::span<const Donation> donations() const = 0;
  /// Evaluates expressions and guards for these symbol values; null when a guard fails. Microseconds.
  virtual std::shared_ptr<const Instance> bind(std::span<const int64_t> symbols) const = 0;
  /// Why bind() refuses these values: the first guard that does not hold, as "s0 <= 128" with symbols by their numbers;
  /// empty when all do.
  virtual std::string failed_guard(std::span<const int64_t> symbols) const = 0;
  /// Kernels that are in no cache: bind() waits until they are compiled.
  virtual size_t missing() const = 0;
  /// Whether a run may find an index out of range.
  virtual bool checks_indices() const = 0;
  /// Kernels that were compiled for this plan, when it was first bound; the others were known.
  virtual std::span<const BuiltKernel> built() const = 0;
  /// Ops without a lowering: each is one eager kernel that runs between the plan's own.
  virtual std::span<const FallbackSite> fallbacks() const = 0;
  /// The graph of primitives, the groups with why they end where they do, and the kernels, as text.
  virtual std::string describe() const = 0;
};

struct PlanReport;

class Instance {
 public:
  virtual ~Instance() = default;
  /// Bytes each output needs.
  virtual std::span<const int64_t> output_bytes() const = 0;
  /// Arena bytes. `run` reserves them first and throws OutOfMemoryError before any launch.
  virtual int64_t arena_bytes() const = 0;
  /// Runs everything: on the CPU's pool, returning when done; on CUDA queued, returning before. Indices out of range
  /// that are known of by then are reported in the result (empty when none). No leaf is overwritten in a run that has
  /// some, but by donations that do not keep theirs.
  virtual std::vector<IndexReport> run(const RunArguments& args) const = 0;
  /// The steps at these sizes as data: see plan_report.h.
  virtual PlanReport report() const = 0;
};

/// Indices that a step on a device found out of range since this was asked last. Its kernels report after the host went
/// on; `idle` says that they all have. Steps on the CPU report when they run. Of steps that look at indices only the
/// first that failed reports, and those that the device was given since then overwrite no leaf, until this was asked.
std::vector<IndexReport> take_reports(Device device, bool idle);
/// The same once the device has done all that it was given.
std::vector<IndexReport> finish_steps(Device device);
/// The ticket of the last step whose indices a device found to be good. Tickets count up from 1, in the order of runs;
/// those of a step that failed and of what was given since are given again.
uint64_t steps_passed(Device device);

}  // namespace smolder::jit
