#include "smolder/core/counters.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iomanip>
#include <list>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <unordered_map>

#include "smolder/core/buffer.h"
#include "smolder/core/error.h"
#include "smolder/core/fork.h"

namespace smolder {
namespace {

/// Kinds of event kept apart; beyond it the one seen longest ago is forgotten.
constexpr size_t kMaxEvents = 4096;

/// Every counter and event of the process. `lock` guards all members; counters are then written without
/// it, through references that stay valid because a map's nodes never move. Never destroyed.
struct Registry {
  ForkMutex lock;
  std::map<std::string, Counter, std::less<>> counters;
  std::list<EventSummary> events;  ///< most recent first
  std::unordered_map<std::string, std::list<EventSummary>::iterator> by_key;
};

Registry& registry() {
  static auto* const r = new Registry;
  return *r;
}
/// Made before any lock is held, as its lock asks.
[[maybe_unused]] const Registry& g_made = registry();

std::string key_of(const Event& e) {
  std::string key;
  key.reserve(e.kind.size() + e.reason.size() + e.where.size() + 2);
  return key.append(e.kind).append(1, '\0').append(e.reason).append(1, '\0').append(e.where);
}

void announce(const Event& e) {
  std::ostringstream out;
  out << e.reason;
  if (!e.where.empty()) out << " at " << e.where;
  if (e.milliseconds > 0) out << " (" << std::fixed << std::setprecision(2) << e.milliseconds << " ms)";
  debug(1, e.kind, out.str());
}

int debug_level_from_environment() {
  const char* text = std::getenv("SMOLDER_DEBUG");
  if (!text || !*text) return 0;
  char* end = nullptr;
  const long level = std::strtol(text, &end, 10);
  if (*end || level < 0 || level > 7) {
    std::fprintf(stderr, "[smolder:debug] SMOLDER_DEBUG must be 0 to 7, found '%s'; taken as 1\n", text);
    return 1;
  }
  return static_cast<int>(level);
}

std::atomic<int>& level() {
  static std::atomic<int> value{debug_level_from_environment()};
  return value;
}

std::atomic<WarningHandler>& warning_handler() {
  static std::atomic<WarningHandler> handler = nullptr;
  return handler;
}

}  // namespace

Counter& counter(std::string_view name) {
  Registry& r = registry();
  std::lock_guard hold(r.lock);
  const auto found = r.counters.find(name);
  return found != r.counters.end() ? found->second : r.counters[std::string(name)];
}

void record_event(Event e) {
  if (debug_level() >= 1) announce(e);
  std::string key = key_of(e);
  Registry& r = registry();
  std::lock_guard hold(r.lock);
  const auto known = r.by_key.find(key);
  if (known != r.by_key.end()) {
    known->second->event.milliseconds += e.milliseconds;
    ++known->second->count;
    r.events.splice(r.events.begin(), r.events, known->second);
    return;
  }
  r.events.push_front({std::move(e), 1});
  r.by_key.emplace(std::move(key), r.events.begin());
  if (r.events.size() > kMaxEvents) {
    r.by_key.erase(key_of(r.events.back().event));
    r.events.pop_back();
  }
}

void record_copy(std::string_view reason, std::string where, size_t bytes) {
  static Counter &copies = counter("copies"), &copied = counter("copies.bytes");
  copies.add();
  copied.add(static_cast<int64_t>(bytes));
  record_event({"copy", std::string(reason), std::move(where)});
}

MetricsSnapshot metrics() {
  MetricsSnapshot snapshot;
  const MemoryStats memory = memory_stats();
  counter("memory.live_bytes").set(memory.live);
  counter("memory.peak_bytes").set(memory.peak);
  counter("memory.cached_bytes").set(memory.cached);
  Registry& r = registry();
  {
    std::lock_guard hold(r.lock);
    for (const auto& [name, c] : r.counters) snapshot.counters.emplace_back(name, c.value());
    snapshot.events.assign(r.events.begin(), r.events.end());
  }
  std::stable_sort(snapshot.events.begin(), snapshot.events.end(),
                   [](const EventSummary& a, const EventSummary& b) { return a.count > b.count; });
  return snapshot;
}

std::string metrics_report() {
  const MetricsSnapshot snapshot = metrics();
  size_t name_width = 0, kind_width = 0;
  for (const auto& [name, value] : snapshot.counters) name_width = std::max(name_width, name.size());
  for (const EventSummary& s : snapshot.events) kind_width = std::max(kind_width, s.event.kind.size());

  std::ostringstream out;
  out << "counters\n";
  for (const auto& [name, value] : snapshot.counters) {
    out << "  " << std::left << std::setw(static_cast<int>(name_width)) << name << "  " << std::right << std::setw(12)
        << value << '\n';
  }
  out << "events\n" << std::fixed << std::setprecision(2);
  for (const EventSummary& s : snapshot.events) {
    out << "  " << std::right << std::setw(8) << s.count << " x  " << std::left
        << std::setw(static_cast<int>(kind_width)) << s.event.kind << "  " << std::right << std::setw(10)
        << s.event.milliseconds << " ms  " << s.event.reason;
    if (!s.event.where.empty()) out << "  (" << s.event.where << ')';
    out << '\n';
  }
  return out.str();
}

void reset_metrics() {
  Registry& r = registry();
  std::lock_guard hold(r.lock);
  for (auto& [name, c] : r.counters) c.reset();
  r.events.clear();
  r.by_key.clear();
}

void set_warning_handler(WarningHandler handler) { warning_handler().store(handler, std::memory_order_release); }

void warn(std::string_view topic, std::string_view text, std::string_view where) {
  if (const WarningHandler handler = warning_handler().load(std::memory_order_acquire)) {
    return handler(topic, text, where);
  }
  std::string line = "warning: " + std::string(text);
  if (!where.empty()) line.append(" (").append(where).append(1, ')');
  debug(0, topic, line);
}

int debug_level() { return level().load(std::memory_order_relaxed); }

void set_debug_level(int wanted) {
  SMOLDER_CHECK(wanted >= 0 && wanted <= 7, ValueError, "the debug level must be 0 to 7, found ", wanted);
  level().store(wanted, std::memory_order_relaxed);
}

void debug(int wanted, std::string_view topic, std::string_view text) {
  if (wanted > debug_level()) return;
  std::string line;
  line.reserve(topic.size() + text.size() + 14);
  line.append("[smolder:").append(topic).append("] ").append(text).append(1, '\n');
  std::fwrite(line.data(), 1, line.size(), stderr);  // one call, so lines of several threads do not mix
}

}  // namespace smolder
