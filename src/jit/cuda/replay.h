// State of an instance on a device between its runs: its numbers, its error words, and graphs of whole runs.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "smolder/core/cuda/queue.h"
#include "smolder/jit/cuda/reports.h"
#include "smolder/jit/cuda/tune.h"

namespace smolder::jit::cuda {

/// Graphs of one instance, by the addresses that a run was given. A run is captured when its addresses come again: the
/// pool finds those of a loop the same, step by step.
class Graphs {
 public:
  /// Null when there is none for these addresses.
  const smolder::cuda::Graph* find(std::span<void* const> addresses);
  /// Whether a run of these addresses should be captured.
  bool wants(std::span<void* const> addresses);
  const smolder::cuda::Graph& add(std::span<void* const> addresses, std::unique_ptr<smolder::cuda::Graph> graph);
  /// Forgets all graphs: what they launch is no longer what a run would.
  void clear() { entries_.clear(); }
  /// Captures nothing any more.
  void give_up() { gave_up_ = true; }
  bool may_replay() const { return !gave_up_; }

 private:
  struct Entry {
    std::vector<void*> addresses;
    std::unique_ptr<smolder::cuda::Graph> graph;  ///< null: seen, not captured
    int64_t last_used = 0, uses = 0;
  };
  static constexpr size_t kMost = 8;
  static constexpr int kMostUnused = 8;  ///< graphs that were dropped before they were used again: addresses vary

  Entry* entry_of(std::span<void* const> addresses);
  std::vector<Entry> entries_;
  int64_t clock_ = 0;
  int unused_ = 0;
  bool gave_up_ = false;
};

/// Bytes [begin, end) that a run touches of a leaf or an output, from its base.
struct TouchedBytes {
  int64_t begin = 0, end = 0;
  bool copied_in = false, copied_out = false;  ///< where it is staged
};

/// Leaves and outputs of one instance whose addresses differ from run to run, as those of a loss do that the user
/// keeps. Small ones are copied to and from memory of the instance, so that the addresses its kernels see stay.
class Staging {
 public:
  Staging(Device device, std::vector<TouchedBytes> touched)
      : device_(device), touched_(std::move(touched)), slots_(touched_.size()) {}

  /// Notes the addresses of a run, and replaces those that are staged by where they are.
  void replace(std::span<char*> addresses);
  /// Queues copies of what the run reads, and of what it wrote. `addresses` are the run's own.
  void copy_in(smolder::cuda::Stream& stream, std::span<char* const> addresses) const;
  void copy_out(smolder::cuda::Stream& stream, std::span<char* const> addresses) const;

 private:
  static constexpr size_t kKnown = 3;  ///< addresses that one may alternate between
  /// An address is taken to vary when so many more were new than known, where a new one weighs as much as two: those of
  /// a second model are new at first, and then stay.
  static constexpr int kNew = 2, kVaries = 8;
  static constexpr int64_t kMostBytes = 4 << 20;  ///< that all which is staged may have

  struct Slot {
    std::array<char*, kKnown> known{};  ///< the addresses it had, the latest first
    int varies = 0;                     ///< how much
    void note(char* address);
    BufferRef memory;  ///< null: not staged
  };
  Device device_;
  std::vector<TouchedBytes> touched_;
  std::vector<Slot> slots_;
  int64_t staged_bytes_ = 0;
};

struct InstanceState {
  int64_t runs = 0;
  bool is_settled = false;                         ///< its calls are
  std::shared_ptr<std::atomic<size_t>> preparing;  ///< programs that are compiled behind it, so that its calls settle
  bool is_compiled = false;                        ///< its kernels are, as far as is known
  bool takes_memory = true;                        ///< for what its launches need meanwhile; as far as is known
  std::unique_ptr<Staging> staging;
  BufferRef scalars;               ///< the numbers of a run, where kernels read them
  std::vector<uint64_t> uploaded;  ///< what they are, but for those computed of others
  std::shared_ptr<ErrorSlots> errors;
  StepGate* gate = nullptr;  ///< where it looks at indices
  Graphs graphs;
  InstanceTuning tuning;
};

/// Whether runs are captured: true at first, unless SMOLDER_CUDA_GRAPHS=0. For comparisons.
bool graphs_enabled();
void set_graphs_enabled(bool on);

}  // namespace smolder::jit::cuda
