// Capture: a function's step is recorded once, and run again without its program.
//
// While a Capture lives, what its thread records is the function's and nothing else, and what would end the step is
// noted. The step that comes of it (`StepRecord`) is a trace with the places its leaves come from and the numbers that
// differ from run to run: `Tape::replay` follows the whole trace at once and runs it as any step runs.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "smolder/core/source_line.h"
#include "smolder/lazy/observers.h"
#include "smolder/lazy/random.h"
#include "smolder/lazy/step_record.h"
#include "smolder/lazy/tape.h"

namespace smolder::lazy {

/// While it is not broken, other threads wait before they record or run anything, so that what is recorded is the
/// thread's alone; where they have to wait for long, it breaks (see Lock).
class Capture final : public CaptureObserver {
 public:
  /// Runs what is pending first. `whole`: what ends the step raises, with its reason and `who` records, instead of
  /// being noted.
  explicit Capture(bool whole, const char* who = "smolder.compile with fullgraph=True");
  ~Capture() override;
  Capture(const Capture&) = delete;

  /// The one of this thread; null outside.
  static Capture* current() { return static_cast<Capture*>(current_); }

  void note_break(std::string_view reason, SourceToken source) override;
  /// The function makes a tensor, at this address.
  void note_made(const void* impl) { made_.insert(impl); }
  bool made(const TensorImpl* impl) const { return made_.contains(impl); }
  /// The gradient that a tensor keeps was looked at or set.
  void note_gradient() { gradients_ = true; }
  bool touched_gradients() const { return gradients_; }
  /// A value made from data.
  void note_constant(const ValueRef& v) { constants_.push_back(v); }
  bool is_constant(const Value* v) const {
    return std::ranges::find(constants_, v, &ValueRef::get) != constants_.end();
  }
  void note_draw(Generator* g, GeneratorState state, uint64_t offset) override;
  void note_move(Generator* g, GeneratorState state, uint64_t offset) override;
  void note_state(Generator* g, GeneratorState before, GeneratorState state) override;
  void note_state_read(Generator* g, GeneratorState state);
  /// A number that stands, as an operand, for one that is told at each run and is `now` at first. Nothing may be
  /// computed of it.
  Scalar run_time_number(Scalar now);
  /// Puts what run-time numbers are now where they stand among parameters.
  void settle(std::span<uint64_t> parameters) const;

  bool broken() const { return broken_ || interrupted(); }
  /// Whether another thread's ops may be among what is pending.
  bool interrupted() const { return interrupted_.load(); }
  std::string reason() const { return broken_ ? reason_ : "another thread computes, and the function may wait for it"; }
  const std::string& where() const { return where_; }

  /// Ends the capture: what is pending as a step; `sources` says where the values that it may read come from. Breaks
  /// when it reads others.
  StepRecord step(const Sources& sources);
  const std::vector<ValueRef>& constants() const { return constants_; }
  const std::vector<Draw>& draws() const { return draws_; }
  /// The effects on the generators used, which must be among `known`, in order of first use.
  std::vector<GeneratorUse> generators(const std::vector<Generator*>& known);
  const std::vector<uint64_t>& run_time_numbers() const { return run_time_; }
  /// Seeds and offsets of all draws, as recorded.
  const std::vector<std::pair<uint64_t, uint64_t>>& drawn() const { return drawn_; }

  /// Outside of any capture for a scope.
  class Pause {
   public:
    Pause() : before_(std::exchange(current_, nullptr)) {}
    ~Pause() { current_ = before_; }
    Pause(const Pause&) = delete;

   private:
    CaptureObserver* before_;
  };

 private:
  struct Used {
    Generator* generator;
    std::pair<uint64_t, uint64_t> begin, now;  ///< now: as this thread left it
    bool relative = true;
    std::vector<uint64_t> seen;  ///< offsets that were read while relative
  };
  Used& use_of(Generator* g, std::pair<uint64_t, uint64_t> state);
  void let_others();
  void find_patches(StepRecord& s);
  /// Which run-time number a parameter stands for.
  std::optional<uint32_t> run_time_at(uint64_t bits) const;

  CaptureObserver* outer_;
  bool whole_, broken_ = false, gradients_ = false;
  const char* who_;
  std::string reason_, where_;
  std::vector<ValueRef> constants_;
  std::unordered_set<const void*> made_;
  std::vector<Draw> draws_;
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> draw_at_;  ///< by seed and offset as recorded
  std::vector<Used> used_;
  std::vector<std::pair<uint64_t, uint64_t>> drawn_;
  mutable std::mutex run_time_mutex_;  ///< another thread's sync settles, too
  std::vector<uint64_t> run_time_;
  std::vector<Tape*> tapes_;
  std::atomic<bool> interrupted_{false};
};

/// The run-time numbers of a step at a run: seeds and offsets by draw, and those that the program keeps.
struct RunNumbers {
  std::vector<std::pair<uint64_t, uint64_t>> draws;
  std::vector<uint64_t> run_time;
};
/// Moves the generators on, as the function does, and says what its ops draw.
std::vector<std::pair<uint64_t, uint64_t>> draw_again(const std::vector<GeneratorUse>& generators,
                                                      const std::vector<Draw>& draws);
/// The number for each of the step's patches in a run, in order.
std::vector<Scalar> patched(const StepRecord& s, const RunNumbers& numbers);
/// The parameters of a run.
std::vector<uint64_t> parameters_of(const StepRecord& s, const std::vector<Scalar>& patched);
inline std::vector<uint64_t> parameters_of(const StepRecord& s, const RunNumbers& numbers) {
  return parameters_of(s, patched(s, numbers));
}

}  // namespace smolder::lazy
