// Counters, timers and the debug level: every sync, compile, fallback and copy is counted here.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace smolder {

/// A named count. Declare as a function-local or namespace-scope static:
///   static Counter& hits = counter("predictor.hits");
/// Names are dotted, lower case; docs/metrics.md lists them all (a test checks).
class Counter {
 public:
  void add(int64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }
  /// For what is no count but a level, as bytes in use.
  void set(int64_t n) { value_.store(n, std::memory_order_relaxed); }
  void reset() { set(0); }

 private:
  std::atomic<int64_t> value_{0};
};

/// The counter of that name, created at first use; the reference is valid for ever.
Counter& counter(std::string_view name);

/// One event worth telling a user: a sync, compile, fallback or copy with its reason and source line.
struct Event {
  std::string kind;    ///< "sync", "compile", "fallback", "copy"
  std::string reason;  ///< why, in a user's words
  std::string where;   ///< "file.py:12", empty when unknown
  double milliseconds = 0;
};
/// Counts a copy of `bytes` bytes between the user's memory and ours, and tells of it as an event.
void record_copy(std::string_view reason, std::string where, size_t bytes);

/// Adds to the event of the same (kind, reason, where), so counts stay exact over a long run; the 4096
/// seen last are kept apart. Also written to stderr at debug level 1.
void record_event(Event e);

struct EventSummary {
  Event event;  ///< milliseconds is the total
  int64_t count = 0;
};
struct MetricsSnapshot {
  std::vector<std::pair<std::string, int64_t>> counters;  ///< sorted by name
  std::vector<EventSummary> events;                       ///< most frequent first, then most recent
};
MetricsSnapshot metrics();
/// The snapshot as aligned text, as smolder.metrics_report() prints it.
std::string metrics_report();
/// Sets every counter to zero and forgets the events. References to counters stay valid.
void reset_metrics();

/// Tells the user something once that no call can return: `where` is the line it is about, "file.py:12", or
/// empty. The handler may be called under any lock and on any thread. Without one, "[smolder:topic] warning: ..."
/// goes to stderr.
using WarningHandler = void (*)(std::string_view topic, std::string_view text, std::string_view where);
void set_warning_handler(WarningHandler handler);
void warn(std::string_view topic, std::string_view text, std::string_view where = {});

/// SMOLDER_DEBUG, 0 to 7: 1 syncs, compiles, fallbacks; 2 time and bytes a kernel; 3 fusion decisions;
/// 4 source; 5 graph after each changed pass; 6 loop IR; 7 assembly.
int debug_level();
/// Throws ValueError outside 0 to 7.
void set_debug_level(int level);
/// Writes one line to stderr as "[smolder:topic] text" when `level` is on.
void debug(int level, std::string_view topic, std::string_view text);

}  // namespace smolder
