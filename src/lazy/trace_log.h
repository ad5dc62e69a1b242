// A log of what ran, kept for a file: each distinct step once, and in what order steps ran.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "smolder/core/buffer.h"
#include "smolder/core/fork.h"
#include "smolder/core/source_line.h"
#include "smolder/ir/graph.h"
#include "smolder/lazy/extract.h"
#include "smolder/lazy/trace.h"
#include "smolder/lazy/value.h"

namespace smolder::lazy {

/// A step that a tape is about to run.
struct StepRun {
  const Trace& trace;
  std::span<const uint32_t> produced;  ///< values that it makes, by number
  std::span<const ValueRef> leaves;
  std::span<const uint64_t> parameters;
  Device device;
  const jit::CompileOptions& options;
  std::string_view reason;  ///< what ended it
  SourceToken source;       ///< and where
  std::string error = {};   ///< why it runs op by op; empty for a plan
};

/// A step of the log, as it was when it first ran.
struct LoggedStep {
  Trace trace;  ///< its instructions and metadata only
  std::vector<uint32_t> produced;
  std::vector<uint64_t> parameters;
  std::vector<BufferRef> leaves;  ///< copies on the host; null where none was kept
  Device device;
  jit::CompileOptions options;
  std::string reason, error;
  SourceToken source;
  int64_t runs = 0;

  /// The op-level graph; source tokens are those of the process.
  ir::Graph graph() const { return to_graph(trace, produced); }
};

struct TraceLogOptions {
  bool leaves = false;              ///< keep what the first run of each step reads
  int64_t max_bytes = 512ll << 20;  ///< of all that is kept; steps and leaves beyond it are counted only
};

/// A log of all tapes of the process, from start() to stop(). Thread-safe.
class TraceLog {
 public:
  explicit TraceLog(TraceLogOptions options) : options_(options) {}
  ~TraceLog() { stop(); }
  TraceLog(const TraceLog&) = delete;

  void start();
  void stop();
  /// Forgets what it holds: a forked child begins anew.
  void clear();

  /// Is there a log that wants to know of steps?
  static bool wanted() { return active_.load(std::memory_order_relaxed) != 0; }
  /// Tells every log. Under the tape's lock, before the step runs, which may write over its leaves.
  static void note(const StepRun& run);

  /// The runs of all steps, also of those that there was no room for.
  int64_t runs() {
    const std::lock_guard hold(mutex_);
    return runs_;
  }

  struct Contents {
    std::vector<LoggedStep> steps;
    std::vector<std::pair<uint32_t, int64_t>> order;  ///< (step, how often in a row)
    int64_t bytes = 0;
    int64_t dropped_runs = 0;    ///< of steps that there was no room for
    int64_t dropped_leaves = 0;  ///< whose data there was no room for
    int64_t unordered_runs = 0;  ///< of steps that are counted, after the order had become too long
  };
  /// Calls f with what there is, which must not run steps.
  void read(auto&& f) {
    const std::lock_guard hold(mutex_);
    f(contents_);
  }

 private:
  void add(const StepRun& run);
  LoggedStep* find(const StepRun& run, uint64_t key);
  void append(const StepRun& run, uint64_t key);
  void keep_leaves(const StepRun& run, LoggedStep& step);

  static std::atomic<int> active_;  ///< one for all libraries of the process, so not inline
  TraceLogOptions options_;
  ForkMutex mutex_;
  Contents contents_;
  int64_t runs_ = 0;
  std::unordered_multimap<uint64_t, uint32_t> known_;
};

}  // namespace smolder::lazy
