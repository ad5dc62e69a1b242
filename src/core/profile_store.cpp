#include "smolder/core/profile_store.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <mutex>
#include <utility>

#include "smolder/core/per_thread.h"

namespace smolder {
namespace profile_detail {

std::atomic<uint8_t> g_on{0};

}  // namespace profile_detail

namespace {

/// Spans and changes of memory kept at most.
constexpr size_t kMostSpans = 1 << 20, kMostChanges = 4 << 20;

/// Made before any lock is held, as its lock asks.
[[maybe_unused]] const ProfileStore& g_made = ProfileStore::get();

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
  struct Number {
    uint32_t value = static_cast<uint32_t>(syscall(SYS_gettid));
  };
  static const PerThread<Number> number;
  return number->value;
}

uint64_t next_flow() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

ProfileStore& ProfileStore::get() {
  static auto* const store = new ProfileStore;
  return *store;
}

void add_span(Span span) {
  if (span.thread == 0) span.thread = thread_number();
  ProfileStore& log = ProfileStore::get();
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
  ProfileStore& log = ProfileStore::get();
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

}  // namespace smolder
