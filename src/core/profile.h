// A profile of what ran when: spans of recording, planning, compiling, launches, kernels, copies and syncs, which are
// kept while somebody profiles. Off, each place that would add one reads a flag and goes on.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "smolder/core/device.h"
#include "smolder/core/source_line.h"

namespace smolder {

enum class SpanKind : uint8_t {
  kUser,     ///< what the program named
  kRecord,   ///< a step, from its first op to the sync that ends it
  kSync,     ///< what ran a step; named by its reason
  kPlan,     ///< building a plan, its stages, and binding one to sizes
  kCompile,  ///< kernels becoming machine code, or loaded from the cache
  kLaunch,   ///< a run of a plan (no step), and on a device the host's part of each of its steps
  kKernel,   ///< a step of a plan that is a kernel of ours
  kLibrary,  ///< one that is a call of a library, or of an eager kernel
  kEager,    ///< an op that ran by itself
  kCopy,     ///< elements from one memory to another
};
inline constexpr int kNumSpanKinds = 10;
/// "kernel", "copy": as Python has them.
std::string_view name(SpanKind kind);

struct Span {
  SpanKind kind = SpanKind::kUser;
  std::string name;
  SourceToken source = 0;              ///< the user's line
  int64_t begin_ns = 0, end_ns = 0;    ///< of the clock of now_ns()
  std::optional<int64_t> own_ns = {};  ///< its part of the time, where it ran side by side with others on the CPU
  uint32_t thread = 0;                 ///< the system's number of the thread that it ran on, or that queued it
  Device device = {};                  ///< where it ran
  bool queued = false;                 ///< it ran in the order of a device's queue, which timed it
  int64_t bytes = 0;                   ///< read and written; 0 when not known
  double flops = 0;                    ///< of a step of a plan, when they were asked for
  uint64_t plan = 0;                   ///< Plan::id(); 0 for none
  int32_t step = -1;                   ///< of the plan
  uint64_t flow = 0;                   ///< a launch on a device and what it ran have one number
  int64_t count = 0;                   ///< of ops recorded, kernels compiled, launches
  std::string detail = {};             ///< more about it: a library's algorithm, why a plan was built
  /// The operands, as "float32[2, 3]"; null unless they were asked for.
  std::shared_ptr<const std::vector<std::string>> shapes = {};
};

/// Memory taken from, or given back to, an allocator.
struct MemoryChange {
  int64_t at_ns = 0;
  Device device = {};
  int64_t bytes = 0;  ///< below 0: given back
  int64_t live = 0;   ///< bytes that are held after it
  uint32_t thread = 0;
};

namespace profile_detail {
enum : uint8_t { kSpans = 1, kShapes = 2, kMemory = 4, kDevices = 8, kFlops = 16 };
extern std::atomic<uint8_t> g_on;
}  // namespace profile_detail

/// Whether spans are kept. One relaxed load.
inline bool profiling() { return (profile_detail::g_on.load(std::memory_order_relaxed) & profile_detail::kSpans) != 0; }
inline bool profiles_shapes() {
  return (profile_detail::g_on.load(std::memory_order_relaxed) & profile_detail::kShapes) != 0;
}
inline bool profiles_memory() {
  return (profile_detail::g_on.load(std::memory_order_relaxed) & profile_detail::kMemory) != 0;
}

inline bool profiles_flops() {
  return (profile_detail::g_on.load(std::memory_order_relaxed) & profile_detail::kFlops) != 0;
}
inline bool profiles_devices() {
  return (profile_detail::g_on.load(std::memory_order_relaxed) & profile_detail::kDevices) != 0;
}

/// Nanoseconds of the monotonic clock, which is Python's `time.perf_counter_ns()` too.
int64_t now_ns();
/// The system's number of this thread.
uint32_t thread_number();
/// A number for a launch and what it runs.
uint64_t next_flow();

/// Keeps a span; its thread is this one unless it says another. Thread-safe. Beyond a million spans they are counted
/// only.
void add_span(Span span);
void add_memory_change(Device device, int64_t bytes, int64_t live);

/// A span of the block that it is in. Does nothing unless somebody profiles when it begins.
class SpanScope {
 public:
  SpanScope(SpanKind kind, std::string_view name, SourceToken source = 0) {
    if (profiling()) [[unlikely]]
      begin(kind, name, source);
  }
  ~SpanScope() {
    if (span_) [[unlikely]]
      end();
  }
  SpanScope(const SpanScope&) = delete;
  SpanScope& operator=(const SpanScope&) = delete;
  /// To say more of it; null when nobody profiles.
  Span* span() { return span_ ? &*span_ : nullptr; }

 private:
  void begin(SpanKind kind, std::string_view name, SourceToken source);
  void end();
  std::optional<Span> span_;
};

/// The span of a copy.
class CopySpan {
 public:
  CopySpan(std::string_view name, SourceToken source, size_t bytes) : scope_(SpanKind::kCopy, name, source) {
    if (Span* const span = scope_.span()) [[unlikely]]
      span->bytes = static_cast<int64_t>(bytes);
  }

 private:
  SpanScope scope_;
};

struct ProfileOptions {
  bool shapes = false, memory = false, flops = false;
  bool devices = true;  ///< times what devices run, which keeps steps there from being replayed as graphs
};
/// The spans that somebody who profiles was told so far.
struct ProfileLog {
  std::vector<Span> spans;  ///< in the order in which they ended
  std::vector<MemoryChange> memory;
  int64_t dropped = 0;  ///< spans and changes that there was no room for, since the profile was empty
};
/// One who profiles; there may be several. Spans are kept while any of them lives.
class ProfileSession {
 public:
  explicit ProfileSession(ProfileOptions options = {});
  ~ProfileSession() { stop(); }
  ProfileSession(const ProfileSession&) = delete;
  ProfileSession& operator=(const ProfileSession&) = delete;
  /// The events since the session began. Waits for devices whose work is being timed.
  ProfileLog log() const;
  /// The same, and the end of the session; empty when it had ended.
  ProfileLog stop();

 private:
  ProfileOptions options_;
  size_t first_span_ = 0, first_change_ = 0;
  bool running_ = true;
};

}  // namespace smolder
