// A compiled plan and its instances, as the executor sees them: flat tables, nothing to decide.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "smolder/core/profile.h"
#include "smolder/eager/array.h"
#include "smolder/jit/backend.h"
#include "smolder/jit/library/library.h"
#include "smolder/jit/plan.h"
#include "smolder/jit/program.h"
#include "smolder/jit/schedule/place.h"

namespace smolder::cuda {
class Queue;
}

namespace smolder::jit {

struct ComparedRun;

struct Launch;
struct RunMode;
namespace cuda {
struct InstanceState;
struct MemoryRange;
struct TouchedBytes;
}  // namespace cuda

class PlanImpl final : public Plan {
 public:
  explicit PlanImpl(Program program);

  uint64_t id() const override { return id_; }
  std::span<const OutputInfo> outputs() const override { return program_.outputs; }
  std::span<const Donation> donations() const override { return program_.donations; }
  std::shared_ptr<const Instance> bind(std::span<const int64_t> symbols) const override;
  std::span<const FallbackSite> fallbacks() const override { return fallbacks_; }
  bool checks_indices() const override { return program_.checks; }
  std::string failed_guard(std::span<const int64_t> symbols) const override;
  size_t missing() const override;
  std::span<const BuiltKernel> built() const override { return program_.built; }
  std::string describe() const override;

  const Program& program() const { return program_; }
  /// Lifetimes of the arena's buffers; see place.h.
  const std::vector<Lifetime>& lifetimes() const { return lifetimes_; }
  /// Where they are at these sizes.
  Placement place_at(std::span<const int64_t> evaluated) const;
  /// Compiles the kernels that no cache had. Its first instance asks, when it has chosen what else is to be compiled:
  /// the hand-written kernels of its sizes. `work`: see work_of_stand_ins.
  void compile_missing(std::span<const double> work) const;

 private:
  const uint64_t id_;
  mutable Program program_;
  mutable std::mutex compiling_;
  std::vector<Lifetime> lifetimes_;
  std::vector<Host> hosts_;
  std::vector<FallbackSite> fallbacks_;
};

/// Where a pointer of a launch comes from: base 0 is the arena, 1 the parameters, 2 the instance's constants, 3
/// nothing (null), then leaves, then outputs.
struct PointerSlot {
  static constexpr uint32_t kArena = 0, kParameters = 1, kConstants = 2, kNull = 3, kFirstLeaf = 4;
  uint32_t base = kArena;
  int64_t offset = 0;  ///< bytes
};

/// One kernel over one set of arguments; offsets into the instance's tables.
struct Segment {
  uint32_t pointers = 0, ints = 0, scalars = 0, errors = 0, num_errors = 0;
  int64_t positions = 0;  ///< of the root loop
  int64_t grain = 0;
  uint32_t num_pointers = 0, first_scratch = 0, num_scratch = 0;
  uint32_t step = 0;  ///< of the program

  int64_t blocks() const { return (positions + grain - 1) / grain; }
};

/// Blocks of one segment, neighbours in the order that a launch of several is shared out in: see share_blocks().
struct BlockRun {
  uint32_t segment = 0;
  int64_t first_block = 0, first = 0;  ///< in the launch's order, and in the segment
};

/// A pointer of a segment that is memory of the running thread.
struct ScratchSlot {
  uint32_t pointer = 0;  ///< among the segment's
  int64_t offset = 0;    ///< into the thread's memory
  int64_t bytes = 0;
};

struct Launch {
  KernelFn fn = nullptr;                 ///< on the CPU; null: a library call
  const DeviceKernel* device = nullptr;  ///< on a device; null: a library call
  uint32_t first_segment = 0, num_segments = 0;
  int library = -1;
  bool parallel = false;
  bool together = false;                   ///< on a device: its segments are queued as one
  bool guarded = false;                    ///< on a device: see Kernel::guarded
  int64_t blocks = 0;                      ///< of all segments
  uint32_t first_run = 0, num_runs = 0;    ///< what order they are taken in
  double work = 0;                         ///< nanoseconds on one core, roughly
  uint32_t first_step = 0, num_steps = 0;  ///< of the program
};

/// Tables of one run, kept between runs of a thread so that a run allocates nothing.
struct RunTables {
  std::vector<char*> bases;
  std::vector<void*> pointers;
  std::vector<uint64_t> scalars;
  std::vector<uint32_t> errors;
  size_t begun = 0;  ///< launches
  int depth = 0;     ///< 0: no step of another run is running this
  static RunTables& of_thread();
};

/// Lets the user stop a run while it has overwritten no leaf: it can be run again.
class StopBeforeWrites {
 public:
  /// `first_write`: the launch from which on a run may not stop; null: there is none. `depth`: of the run.
  StopBeforeWrites(const Launch* first_write, int depth) : first_write_(first_write), may_stop_(depth == 0) {}
  void before(const Launch& launch);

 private:
  const Launch* first_write_;
  bool may_stop_;
};

/// While it lives, runs of this thread are part of a step of the run before, whose tables they leave alone.
class NestedRun {
 public:
  NestedRun();
  ~NestedRun();
  NestedRun(const NestedRun&) = delete;

 private:
  RunTables outer_;
};

/// A unit of queued work on a device: one kernel over one set of arguments, or over several where the launch is
/// one of its segments together, or a library call.
struct WorkUnit {
  uint32_t launch = 0;
  uint32_t first_segment = 0, num_segments = 0;  ///< none: a library call
  uint32_t first_touch = 0, num_touches = 0;
};

/// Memory that a unit reads or writes.
struct Touch {
  PointerSlot from;
  int64_t bytes = 0;
  bool written = false;
};

struct LibraryStep {
  std::unique_ptr<BoundLibrary> call;
  uint32_t pointers = 0, num_pointers = 0;
  const OpSite* site = nullptr;
  int error = -1;  ///< its slot among the instance's, if it has one
  bool guarded = false;
};

struct SegmentTimes;

/// Who looks at memory around each launch of a run, which is waited for.
struct LaunchWatch {
  std::function<void(const Launch&)> before, after;
};

class InstanceImpl final : public Instance {
 public:
  InstanceImpl(std::shared_ptr<const PlanImpl> plan, std::vector<int64_t> evaluated);

  std::span<const int64_t> output_bytes() const override { return output_bytes_; }
  int64_t arena_bytes() const override { return arena_bytes_; }
  std::vector<IndexReport> run(const RunArguments& args) const override;
  PlanReport report() const override;
  const Plan& plan() const { return *plan_; }
  /// See compare_steps.h.
  ComparedRun run_compared(std::span<const int64_t> symbols, const RunArguments& args) const;

 private:
  eager::Array memory_of(BufferId b) const;
  std::vector<IndexReport> run_on_cpu(const RunArguments& args) const;
  std::vector<bool> written_by(size_t launches) const;
  void fill_bases(const RunArguments& args, char* arena) const;
  void fill_tables(const RunArguments& args) const;
  std::vector<IndexReport> run_on_cuda(const RunArguments& args, const LaunchWatch* watch = nullptr) const;
  std::optional<std::vector<eager::Array>> reference_of(const Step& step, std::span<const int64_t> symbols,
                                                        const RunArguments& args) const;
  smolder::cuda::Queue& queue() const;
  cuda::InstanceState& state_on_cuda() const;
  std::vector<cuda::TouchedBytes> touched_bytes() const;
  std::span<void* const> graph_key(const RunArguments& args) const;
  void queue_launch(const Launch& launch, std::vector<IndexReport>& reports) const;
  bool queue_library(const LibraryStep& step) const;
  void queue_segments(const Launch& launch, std::span<const Segment> segments) const;
  std::span<const Segment> segments_of(const Launch& launch) const;
  void queue_on_lanes() const;
  const uint32_t* guard_word() const;
  std::vector<cuda::MemoryRange> all_checks() const;
  void add_checks(const WorkUnit& unit, std::vector<cuda::MemoryRange>& work) const;
  void count(const cuda::InstanceState& state) const;
  void queue_in_order(const LaunchWatch* watch, bool waits, std::vector<IndexReport>& reports) const;
  std::vector<IndexReport> finish_with(std::vector<IndexReport> found) const;
  void replay(const RunArguments& args, cuda::InstanceState& state, std::vector<IndexReport>& reports) const;
  void settle(cuda::InstanceState& state) const;
  bool is_compiled(cuda::InstanceState& state) const;
  void rehearse(const RunArguments& args, cuda::InstanceState& state) const;
  void run_with_trials(const RunMode& mode, cuda::InstanceState& state, std::vector<IndexReport>& reports) const;
  void run_and_wait(const Launch& launch, std::vector<IndexReport>& reports) const;
  void bind_kernel(const Step& step, std::span<const int64_t> evaluated);
  void bind_library(const Step& step, std::span<const int64_t> evaluated);
  void bind_early_check(const Program::EarlyCheck& check, std::span<const int64_t> evaluated);
  LibraryView view_of(const LibraryCall::Operand& x, std::span<const int64_t> evaluated) const;
  void add_touch(BufferId b, bool written, std::span<const int64_t> evaluated);
  void find_first_write();
  void share_blocks(Launch& launch);
  void append_computed(const Launch& launch, size_t scalars);
  std::vector<double> work_of_stand_ins() const;
  int64_t bytes_of(const Step& step) const;
  bool has_errors(const std::vector<IndexReport>& reports) const;
  void run_launch(const Launch& launch, std::vector<IndexReport>& reports) const;
  void run_segments(const Launch& launch, SegmentTimes* times) const;
  void run_watched(const Launch& launch, std::vector<IndexReport>& reports) const;
  void run_side_by_side(const Launch& launch) const;
  Span span_of(uint32_t step) const;
  double flops_of(uint32_t step) const;
  using Shapes = std::shared_ptr<const std::vector<std::string>>;
  Shapes shapes_of(uint32_t step) const;
  void tell_time(const Launch& launch, double us) const;
  PointerSlot pointer(BufferId b) const;
  void add_unit(const Step& step, std::span<const int64_t> evaluated);

  std::shared_ptr<const PlanImpl> plan_;
  const std::vector<int64_t> evaluated_;  ///< expressions of the plan, at the instance's sizes
  mutable std::once_flag made_spans_, counted_flops_, told_shapes_;
  // By step, once they were asked for.
  mutable std::vector<Span> spans_;
  mutable std::vector<double> flops_;
  mutable std::vector<Shapes> shapes_;
  std::vector<int64_t> output_bytes_;
  int64_t arena_bytes_ = 0;
  std::vector<PointerSlot> placed_;  ///< by buffer: where in the arena or a host it is
  int num_leaves_ = 0;

  const bool waits_;  ///< for the compiler, where something else could run meanwhile
  std::vector<Launch> launches_;
  const Launch* last_check_ = nullptr;   ///< on the CPU: the last that may find an index out of range
  const Launch* first_write_ = nullptr;  ///< that may overwrite a leaf
  std::vector<Segment> segments_;
  std::vector<BlockRun> block_runs_;
  std::vector<WorkUnit> units_;  ///< on a device
  std::vector<Touch> touches_;
  std::vector<ScratchSlot> scratch_;
  std::vector<LibraryStep> library_;
  std::vector<PointerSlot> pointers_;
  std::vector<uint32_t> number_slots_;  ///< pointers that are of parameters, which only library calls take
  std::vector<int64_t> ints_;
  std::vector<uint64_t> constants_;  ///< numbers that library calls take by address
  std::vector<int32_t> scalars_;     ///< parameter of each kernel scalar, or kComputed
  static constexpr int32_t kComputed = -1;
  /// Kernels that compute scalars, which lie behind theirs, of those from `scalars` on.
  struct Computed {
    const DeviceKernel* device;
    uint32_t scalars, given;  ///< of these, those that it computes the others of
  };
  void compute_scalars(std::vector<uint64_t>& scalars) const;
  std::vector<Computed> computed_;
  std::vector<const OpSite*> errors_;
  mutable std::shared_ptr<cuda::InstanceState> on_cuda_;  ///< made by the first run there, and only used by runs
};

}  // namespace smolder::jit
