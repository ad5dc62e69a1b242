#include "smolder/core/profile.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <deque>
#include <mutex>
#include <utility>

#include "smolder/core/cuda/timeline.h"
#include "smolder/core/fork.h"
#include "smolder/core/memory_history.h"

namespace smolder {
namespace profile_detail {

std::atomic<uint8_t> g_on{0};

}  // namespace profile_detail

namespace {

/// Spans and changes of memory kept at most.
constexpr size_t kMostSpans = 1 << 20, kMostChanges = 4 << 20;

/// All that is kept. `lock` guards every member. Never destroyed: threads may outlive any static.
struct Log {
  ForkMutex lock;
  std::deque<Span> spans;
  std::deque<MemoryChange> changes;
  int64_t dropped = 0;
  int sessions = 0, with_shapes = 0, with_memory = 0, with_devices = 0, with_flops = 0;

  static Log& get() {
    static auto* const log = new Log;
    return *log;
  }
  void set_flags() {
    memory_detail::watch(memory_detail::kProfiled, with_memory > 0);
    using namespace profile_detail;
    g_on.store(
        static_cast<uint8_t>((sessions ? kSpans : 0) | (with_shapes ? kShapes : 0) | (with_memory ? kMemory : 0) |
                             (with_devices ? kDevices : 0) | (with_flops ? kFlops : 0)),
        std::memory_order_relaxed);
  }
};
/// Made before any lock is held, as its lock asks.
[[maybe_unused]] const Log& g_made = Log::get();

}  // namespace

std::string_view name(SpanKind kind) {
  static constexpr std::array<std::string_view, kNumSpanKinds> kNames = {
      "user", "record", "sync", "plan", "compile", "launch", "kernel", "library", "eager", "copy"};
  return kNames[static_cast<size_t>(kind)];
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

uint32_t thread_number() {
  thread_local const auto number = static_cast<uint32_t>(syscall(SYS_gettid));
  return number;
}

uint64_t next_flow() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

void add_span(Span span) {
  if (span.thread == 0) span.thread = thread_number();
  Log& log = Log::get();
  const std::lock_guard hold(log.lock);
  if (log.sessions == 0) return;
  if (log.spans.size() == kMostSpans) {
    ++log.dropped;
    return;
  }
  log.spans.push_back(std::move(span));
}

void add_memory_change(Device device, int64_t bytes, int64_t live) {
  const MemoryChange change{now_ns(), device, bytes, live, thread_number()};
  Log& log = Log::get();
  const std::lock_guard hold(log.lock);
  if (log.with_memory == 0) return;
  if (log.changes.size() == kMostChanges) {
    ++log.dropped;
    return;
  }
  log.changes.push_back(change);
}

void SpanScope::begin(SpanKind kind, std::string_view name, SourceToken source) {
  span_.emplace();
  span_->kind = kind;
  span_->name = name;
  span_->source = source;
  span_->begin_ns = now_ns();
}

void SpanScope::end() {
  span_->end_ns = now_ns();
  add_span(std::move(*span_));
}

ProfileSession::ProfileSession(ProfileOptions options) : options_(options) {
  Log& log = Log::get();
  const std::lock_guard hold(log.lock);
  first_span_ = log.spans.size();
  first_change_ = log.changes.size();
  ++log.sessions;
  log.with_shapes += options.shapes;
  log.with_memory += options.memory;
  log.with_devices += options.devices;
  log.with_flops += options.flops;
  log.set_flags();
}

ProfileLog ProfileSession::log() const {
  if (!running_) return {};
  cuda::settle_timeline(true);
  Log& log = Log::get();
  const std::lock_guard hold(log.lock);
  ProfileLog out;
  out.spans.assign(log.spans.begin() + static_cast<ptrdiff_t>(first_span_), log.spans.end());
  out.memory.assign(log.changes.begin() + static_cast<ptrdiff_t>(first_change_), log.changes.end());
  out.dropped = log.dropped;
  return out;
}

ProfileLog ProfileSession::stop() {
  ProfileLog out = log();
  if (!std::exchange(running_, false)) return out;
  Log& log = Log::get();
  bool last = false;
  {
    const std::lock_guard hold(log.lock);
    --log.sessions;
    log.with_shapes -= options_.shapes;
    log.with_memory -= options_.memory;
    log.with_devices -= options_.devices;
    log.with_flops -= options_.flops;
    log.set_flags();
    last = log.sessions == 0;
    if (last) {
      log.spans.clear();
      log.changes.clear();
      log.dropped = 0;
    }
  }
  if (last) cuda::forget_timeline();
  return out;
}

}  // namespace smolder
