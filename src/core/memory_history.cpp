#include "smolder/core/memory_history.h"

#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "smolder/core/fork.h"
#include "smolder/core/profile.h"

namespace smolder {
namespace memory_detail {

std::atomic<uint8_t> g_watched{0};

void watch(uint8_t what, bool on) {
  if (on) {
    g_watched.fetch_or(what, std::memory_order_relaxed);
  } else {
    g_watched.fetch_and(static_cast<uint8_t>(~what), std::memory_order_relaxed);
  }
}

}  // namespace memory_detail

namespace {

thread_local const MemoryUse* t_use = nullptr;

/// `lock` guards every member. Never destroyed: buffers may outlive any static.
struct History {
  ForkMutex lock;
  bool on = false;
  size_t most_events = 0;
  std::map<uintptr_t, HeldMemory> held;
  std::deque<MemoryEvent> events;

  static History& get() {
    static auto* const it = new History;
    return *it;
  }
  void add(MemoryEvent::Kind kind, const HeldMemory& block) {
    if (most_events == 0) return;
    if (events.size() == most_events) events.pop_front();
    events.push_back({kind, block});
  }
};
/// Made before any lock is held, as its lock asks.
[[maybe_unused]] const History& g_made = History::get();

}  // namespace

void start_memory_history(size_t most_events, bool goes_on) {
  History& h = History::get();
  const std::lock_guard hold(h.lock);
  if (!h.on || !goes_on) {
    h.held.clear();
    h.events.clear();
  }
  while (h.events.size() > most_events) h.events.pop_front();
  h.most_events = most_events;
  h.on = true;
  memory_detail::watch(memory_detail::kKept, h.on);
}

void stop_memory_history() {
  History& h = History::get();
  const std::lock_guard hold(h.lock);
  h.on = false;
  memory_detail::watch(memory_detail::kKept, h.on);
}

bool memory_history_is_on() {
  History& h = History::get();
  const std::lock_guard hold(h.lock);
  return h.on;
}

MemoryHistory memory_history() {
  History& h = History::get();
  const std::lock_guard hold(h.lock);
  MemoryHistory out;
  for (const auto& [address, block] : h.held) out.held.push_back(block);
  out.events.assign(h.events.begin(), h.events.end());
  return out;
}

MemoryFor::MemoryFor(std::string_view what, SourceToken source) : on_(memory_is_watched()) {
  if (!on_) return;
  use_ = {std::string(what), source};
  before_ = std::exchange(t_use, &use_);
}

MemoryFor::~MemoryFor() {
  if (on_) t_use = before_;
}

void note_taken(const void* data, size_t bytes, size_t size, Device device, int64_t live) {
  if (profiles_memory()) add_memory_change(device, static_cast<int64_t>(size), live);
  History& h = History::get();
  const std::lock_guard hold(h.lock);
  if (!h.on) return;
  const auto address = reinterpret_cast<uintptr_t>(data);
  HeldMemory& block = h.held[address];
  block = {address, device, bytes, size, t_use ? *t_use : MemoryUse(), now_ns()};
  h.add(MemoryEvent::kTaken, block);
}

void note_given_back(const void* data, size_t size, Device device, int64_t live) {
  if (profiles_memory()) add_memory_change(device, -static_cast<int64_t>(size), live);
  History& h = History::get();
  const std::lock_guard hold(h.lock);
  if (!h.on) return;
  const auto found = h.held.find(reinterpret_cast<uintptr_t>(data));
  if (found == h.held.end()) return;  // taken before the history was started
  found->second.at_ns = now_ns();
  h.add(MemoryEvent::kGivenBack, found->second);
  h.held.erase(found);
}

void note_given_on(const void* data, std::string_view what, SourceToken source) {
  History& h = History::get();
  const std::lock_guard hold(h.lock);
  const auto found = h.held.find(reinterpret_cast<uintptr_t>(data));
  if (!h.on || found == h.held.end()) return;
  found->second.use = {std::string(what), source};
  found->second.at_ns = now_ns();
  h.add(MemoryEvent::kGivenOn, found->second);
}

}  // namespace smolder
