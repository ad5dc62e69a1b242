// What an instance keeps on a device between its runs: its numbers, its error words, and graphs of whole runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "smolder/core/cuda/queue.h"
#include "smolder/jit/cuda/reports.h"

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
  /// Captures nothing any more.
  void give_up() { gave_up_ = true; }

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

struct InstanceState {
  BufferRef scalars;               ///< the numbers of a run, where kernels read them
  std::vector<uint64_t> uploaded;  ///< what they are
  std::shared_ptr<ErrorWords> errors;
  Graphs graphs;
};

/// Whether runs are captured: true at first, unless SMOLDER_CUDA_GRAPHS=0. For comparisons.
bool graphs_enabled();
void set_graphs_enabled(bool on);

}  // namespace smolder::jit::cuda
