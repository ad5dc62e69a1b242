// The tape: what is recorded and not yet run, and the predictor that recognises repeated steps.
//
// A step that repeats is *followed*: each op is compared with the entry recorded there before (op,
// operands, attributes, scalar categories, leaf metadata) and reuses it; nothing is inferred, hashed
// or appended. The first mismatch copies the followed prefix and records on in the ordinary way, and a
// rolling hash finds another known trace with the same prefix, so alternating steps (train, evaluate)
// are followed as well.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "smolder/lazy/lock.h"
#include "smolder/lazy/operand.h"
#include "smolder/lazy/random.h"
#include "smolder/lazy/told.h"
#include "smolder/lazy/trace.h"
#include "smolder/lazy/turns.h"

namespace smolder {
struct Span;
}

namespace smolder::lazy {

struct Known;
struct RanStep;
struct StepRecord;
class BranchObserver;
class Capture;

/// Switches for tests and tools.
struct TapeOptions {
  bool predict = true;          ///< off: every op is recorded in the ordinary way
  uint32_t soft_bound = 4096;   ///< instructions after which the trace is cut where a loop comes round
  uint32_t hard_bound = 32768;  ///< and where it is cut anyway
  uint64_t hash_mask = ~0ull;   ///< ANDed to each rolling hash: fewer bits force collisions in tests
  uint32_t max_traces = 4096;   ///< known before the oldest are forgotten: every step of a program may differ
  uint64_t random_tiers = 0;    ///< but 0: drawn with this for each step is whether it runs op by op, or as a plan
  jit::CompileOptions compile;
  bool strict = false;  ///< an op without lowering is an error when recorded
};

/// How long steps may still wait for being planned, kernels not counted, where they could run op by op: 0.1 s, and a
/// tenth of the time that passes. Less where steps do not come again that were planned so: a plan then counts for more
/// than the time it took, up to 32 times.
class Patience {
 public:
  bool bears(int64_t ns);
  /// A step was planned, which took so long.
  void use(int64_t ns);
  /// A step came again that was planned so.
  void note_again() { unused_ = std::max(0, unused_ - kForOne); }

 private:
  static constexpr int64_t kMost = 100'000'000, kMostDebt = 10 * kMost;
  static constexpr int kForOne = 4;       ///< plans that may be for nothing for one that is not
  static constexpr int kUntilTwice = 16;  ///< plans for nothing after which one counts for twice as much
  static constexpr int kMostDoublings = 5;
  int64_t left_ = kMost, at_ = 0;
  int unused_ = 0;
};

// Steps that a device was given and that may yet turn out to have failed, as the host is ahead of it: what takes them
// back. See given_steps.cpp.

/// A tensor written in a step, and what it held before.
struct Write {
  Tensor tensor;
  ValueRef before;
};

struct GivenStep {
  uint64_t ticket = 0;  ///< see jit::steps_passed(); 0: it looks at no index, and is good if those before it are
  uint64_t serial = 0;  ///< of no other step of the tape
  std::vector<Write> writes;
  size_t kept_bytes = 0;  ///< that were replaced by these
  /// A leaf whose memory an output was given. The memory is not held: the next step may be given it, too.
  struct Donated {
    ValueRef leaf;
    std::weak_ptr<Buffer> memory;
  };
  std::vector<Donated> donated;
  /// A value that it made, if that still has this memory. Values are in a pool, so addresses stay good.
  struct Made {
    Value* value;
    std::weak_ptr<Buffer> memory;
    bool unsure;  ///< where it is this step that fails; others behind it lose all
  };
  std::vector<Made> made;
  std::vector<std::function<void()>> undo;
  DrawLog::Draws draws;
};

/// Those of one tape, the oldest first. Guarded by its mutex.
class GivenSteps {
 public:
  bool empty() const { return steps_.empty(); }
  /// More would be too much memory, or too far ahead.
  bool is_full() const { return steps_.size() >= kMost || kept_bytes_ >= kMostBytes; }
  void add(GivenStep step);
  /// The tensor is about to hold what the last one made; nothing is kept of that where there is none.
  void add(Write write);
  /// Functions that take back what steps changed beside tensors, the oldest first.
  using Undo = std::vector<std::function<void()>>;
  /// Forgets those that can't fail any more: all up to the one with a ticket, and what follows that without one. What
  /// is returned is to be dropped.
  Undo release(uint64_t passed);
  /// The first of those that did not pass failed: takes all back, the last first. What that one made of no index is
  /// kept. What is returned is to be run.
  Undo take_back();
  /// Adds to what takes the last step back. False if it is not this one any more.
  bool note(uint64_t serial, std::function<void()>& undo);

 private:
  static constexpr size_t kMost = 64;
  static constexpr size_t kMostBytes = 64 << 20;  ///< that were replaced, and are held so that they may come back

  std::deque<GivenStep> steps_;
  size_t kept_bytes_ = 0;
};

/// The tape of one device. Every member is guarded by `mutex()`; a sync holds it throughout, so that
/// other threads' ops wait for the step they depend on. While it is held the GIL is taken by kernels and shape rules
/// written in Python only; who waits for it lets go of the GIL.
class Tape {
 public:
  ~Tape();  // where `Known` is known
  /// The CPU's tape; within an `OwnTape`, that one.
  static Tape& cpu() {
    if (Tape* const tape = cpu_) [[likely]]
      return *tape;
    return first_cpu();
  }
  /// The tape of a device. On the CPU and on CUDA steps run as plans; on a device that a user registered op by op, by
  /// the device's kernels.
  static Tape& on(Device device) { return device == DeviceType::kCPU ? cpu() : on_device(device); }
  /// Calls f with each tape there is, locked: the CPU's, then those of devices.
  static void each(const std::function<void(Tape&)>& f);
  Device device() const { return device_; }
  /// Throws IndexError for indices out of range that the device found while the host went on, once the step that failed
  /// and all that was recorded since are taken back. `idle`: it has done all that it was given.
  void raise_reports(bool idle);
  /// Waits until no step that the device was given can fail any more; throws as raise_reports() if one did. For what
  /// cannot be taken back.
  void settle_given();
  /// Lets go of what is held of steps that the device has done.
  void forget_passed();
  /// Takes something back, too, if the step fails that this thread gave a device last and that has not passed yet.
  static void note_given(std::function<void()> undo);
  /// `undo` takes back what the step that is being recorded changes beside tensors, if it fails; `updates`: an
  /// optimizer's step begins. In eager mode it takes that back if a step fails that a device was given before.
  static void note_undo(std::function<void()> undo, bool updates);
  /// Whether this thread ever gave a device a step that could fail.
  static bool has_given();

  Lock& mutex() { return mutex_; }
  TapeOptions& options() { return options_; }

  /// Records one op; `outputs` receives a reference to each result. Throws what the op's shape rule
  /// throws and leaves the tape as it was. `source` is null at first: finding it may run arbitrary Python
  /// (a collection), so it is done without the lock, and only for ops that are not predicted. Returns
  /// false, having done nothing, when the source is needed.
  bool record(ir::Op op, std::span<const Operand> operands, std::span<const int64_t> attrs, ValueRef* outputs,
              const SourceToken* source);

  /// Runs everything pending. `reason` is for the report. A step that cannot run as a plan runs op by op; if an op
  /// cannot run, or an index is out of range, tensors have what they had when the step began, values recorded since
  /// that op are unreadable, and the error is thrown, naming the op.
  void sync(std::string_view reason, SourceToken source);

  /// Raises the error of an op that this thread recorded, or one that has ended, if it failed in a step that another
  /// thread ran. Who reads a value that is there already asks by this.
  void hear() {
    if (turns_.any_unheard()) [[unlikely]]
      raise_unheard();
  }

  /// The program marked a step itself.
  void mark() { boundaries_since_mark_ = 0; }
  /// A natural boundary was reached: should it end the step? Not while the program marks its steps.
  bool boundary_ends_step() { return ++boundaries_since_mark_ > 2; }

  Told& told() { return told_; }

  /// A value with memory.
  ValueRef adopt(BufferRef buffer, const ir::Meta* meta);
  /// Notes that `t` is about to hold `now`, so that a failed step can give it back.
  void note_write(const Tensor& t, const ValueRef& now);
  bool has_pending() const { return size() != 0; }
  /// Instructions recorded and not yet run.
  size_t size() const { return followed_ ? position_ : own_.instrs.size(); }
  /// Throws what reading a value raises that has none: why the last step failed.
  [[noreturn]] void raise_no_value() const;
  /// The step that ran last; null before the first. For tools that look at its plan.
  const Trace* last_trace() const { return last_; }
  /// The sync that ended it.
  struct End {
    std::string reason;
    SourceToken source = 0;
  };
  const End& last_end() const { return last_end_; }
  /// The plans that ran its steps: every one that is known, at the sizes that it was bound to last.
  std::vector<std::shared_ptr<const jit::Instance>> instances() const;
  /// A value without memory that ops may be recorded on, and that nothing may read.
  ValueRef placeholder(const ir::Meta* meta);
  /// Drops all traces and plans (not kernels). Tests and `smolder.reset()`.
  void forget_traces();
  /// How often that happened.
  uint64_t forgotten() const { return forgotten_; }

  // For captures (capture.h).

  /// Whose tags are among the numbers of what is pending; null: nobody's.
  void set_capture(const Capture* c) { capture_ = c; }
  /// The pending ops as a trace; null when there are none.
  Trace* pending_trace();
  /// The buffers that it reads, in order, and its numbers.
  std::span<const ValueRef> leaves() const { return leaves_; }
  std::span<uint64_t> parameters() { return parameters_; }
  /// The number of a value of this step; none for others.
  std::optional<uint32_t> number_of(const Value& v) const {
    return v.epoch == epoch_ ? std::optional(v.index) : std::nullopt;
  }
  /// Tensors that had a value when this step wrote them.
  std::vector<Tensor> written() const;
  /// The values that it computes and somebody holds.
  std::vector<ValueRef> alive() const;
  /// Forgets what is pending without running it; its values are unreadable.
  void drop_pending();
  /// The same, and what was written gets back what it held. Reading such a value says `why`.
  void abandon(std::string why);
  /// Runs a recorded step again as a step of its own, all at once: `leaves` and `parameters` as the trace has them.
  /// `write` is given the wanted results before they are computed, to put them where the function does.
  void replay(const StepRecord& s, std::vector<ValueRef> leaves, std::vector<uint64_t> parameters,
              const std::function<void(std::span<const ValueRef>)>& write, SourceToken source);

 private:
  friend class OwnTape;
  friend class BranchTape;
  explicit Tape(Device device = {});
  static Tape& first_cpu();
  static Tape& on_device(Device device);
  void note_step(const Trace& t, const PlanEntry& entry, RanStep& ran) const;
  void run_on_device(std::string_view reason, SourceToken source);
  bool run_one_by_one(const Trace& t, bool gives_up = false);
  void drop_stale_plans();
  void drop_plans(const char* why);
  inline Value* allocate(const ir::Meta* meta);
  void drain();
  uint32_t add_leaf(Value* v);
  inline bool follow(ir::Op op, std::span<const Operand> operands, std::span<const int64_t> attrs, ValueRef* outputs);
  void append(ir::Op op, std::span<const Operand> operands, std::span<const int64_t> attrs, ValueRef* outputs,
              SourceToken source);
  void forget_leaves(size_t values);
  void diverge();
  void try_rejoin();
  bool loop_comes_round(ir::Op op, std::span<const int64_t> attrs, SourceToken source) const;
  inline ValueRef add_output(const ir::Meta* meta);
  inline ValueRef add_result(uint32_t number, const ir::Meta* meta);
  Trace* current_trace();
  /// Drops the older half of the traces, and the plans that no other has.
  void forget_oldest();
  std::vector<uint32_t> numbers_alive() const;
  /// A plan that is not known yet.
  struct Built {
    std::shared_ptr<const jit::Plan> plan;
    double milliseconds = 0;
    bool behind = false;
  };
  bool has_two_tiers(const Trace& t) const;
  bool waits_for_compiler() const;
  bool draws_op_by_op();
  PlanEntry* find_plan(Trace& t, bool wait = false);
  std::shared_ptr<const jit::Plan> plan_for(const Trace& t, PlanEntry& entry, bool wait);
  std::shared_ptr<const jit::Instance> bound(const jit::Plan& plan, std::span<const int64_t> symbols,
                                             const Trace& t) const;
  Built planned_now(const Trace& t, const PlanEntry& entry) const;
  bool compile_behind(const Trace& t, const PlanEntry& entry, std::span<const int64_t> symbols, const Built& built);
  void note_used_again(const jit::Plan& plan);
  void note_compiled(const Trace& t, const PlanEntry& entry, const std::string& structure, const Built& built,
                     Span* span);
  std::vector<jit::IndexReport> run_before_plan(Trace& t, RanStep* ran);
  std::vector<jit::IndexReport> run(Trace& t, PlanEntry& entry);
  void look_at_given();
  void give();
  [[noreturn]] void fail(const std::vector<jit::IndexReport>& reports);
  void salvage(const Trace& t, const std::string& why);
  /// Computes by eager kernels what a step that could not run was to compute. Where that can't be, rethrows what the
  /// caller caught. `t` is null where there is no trace yet, `ran` where steps are not logged.
  void fall_back(const Trace* t, const std::string& why, RanStep* ran);
  /// Raises for indices out of range that a run found, once what the step changed is as it was.
  void tell_bad_indices(Trace* t, const std::vector<jit::IndexReport>& found);
  struct Losses;
  void lose(const Losses& losses, const std::unordered_map<uint32_t, ValueRef>& written,
            const std::vector<bool>& made_here);
  void raise_unheard();
  void give_back(size_t write, size_t end, const std::unordered_map<uint32_t, ValueRef>& written);
  void note_recorded();
  void finish_step(Trace* t);
  void forget_writes();

  /// The answer of cpu() in this thread; null before it is asked.
  inline static SMOLDER_THREAD_LOCAL Tape* cpu_ = nullptr;

  Lock mutex_;
  const Device device_;
  TapeOptions options_;

  // The step being recorded.
  uint64_t epoch_;             ///< of no other step, of this tape or another
  Trace own_;                  ///< used while nothing is followed
  Trace* followed_ = nullptr;  ///< the known trace whose first position_ instructions equal this step
  size_t position_ = 0;
  bool may_rejoin_ = true;  ///< the next recorded op may lead into a known trace
  size_t diverged_at_ = 0;
  std::vector<Value*> slots_;  ///< by value number; null once dead
  std::vector<ValueRef> leaves_;
  std::vector<uint64_t> parameters_;
  uint64_t live_digest_ = 0;
  /// Each time that one of them was written: when that was, and the number of the new value, or the value itself if it
  /// has memory.
  struct Rewrite {
    TensorImpl* impl;
    size_t position;
    uint32_t value;
    ValueRef known;
    Turns::Thread thread;
  };
  std::vector<Write> writes_;
  std::vector<Rewrite> rewrites_;
  Turns turns_;
  bool makes_parameters_ = false;    ///< parameters are made in this step: what was drawn for them stays drawn
  std::optional<GivenStep> giving_;  ///< this step, once it was queued
  GivenSteps given_;
  Told told_;
  std::string failure_;
  uint64_t generation_ = 0;  ///< eager::dispatch_generation() when the plans were made
  uint64_t forgotten_ = 0;
  bool is_own_ = false;               ///< one thread's for a while: see OwnTape
  bool never_runs_ = false;           ///< of shapes only
  const Capture* capture_ = nullptr;  ///< see set_capture()
  BranchObserver* branch_ = nullptr;  ///< whose tape this is: see branch.h
  bool recorded_anew_ = false;        ///< the trace that is about to run was not known
  std::string complaint_;             ///< what to raise once the step has run
  std::shared_ptr<PlanJob> awaited_;  ///< what is compiled behind the step that is about to run
  Patience patience_;
  int64_t boundaries_since_mark_ = 2;  ///< so that the first boundary already ends a step

  // Knowledge of earlier steps.
  std::unique_ptr<Known> known_;
  Trace* last_ = nullptr;
  End last_end_;
  Value* free_values_ = nullptr;
  uint32_t until_drain_ = 0;        ///< ops to record until the dead are looked for again; 0 at the first of a step
  int64_t record_began_ = 0;        ///< when the first op of the step was recorded, if somebody profiles
  std::vector<ir::Meta> inferred_;  ///< room for a shape rule's results
};

/// While it lives, what this thread does with tensors has nothing to do with the step that is being recorded or run:
/// what kernels and shape rules that are made of tensors run in, as they are called under the tape's lock. No gradient
/// is recorded.
class OwnTape {
 public:
  /// `kRun`: ops run at once. `kShapes`: they only say shapes and dtypes, and reading a value raises.
  enum Kind : uint8_t { kRun, kShapes };
  explicit OwnTape(Kind kind);
  ~OwnTape();
  OwnTape(const OwnTape&) = delete;
  Tape& operator*() { return *tape_; }

 private:
  std::unique_ptr<Tape> tape_;
  Tape* outer_;
  bool grad_, eager_;
};

}  // namespace smolder::lazy
