#include "smolder/jit/cuda/replay.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <utility>

#include "smolder/core/counters.h"

namespace smolder::jit::cuda {
namespace {

std::atomic<bool>& enabled() {
  static std::atomic<bool> on{[] {
    const char* const text = std::getenv("SMOLDER_CUDA_GRAPHS");
    return !text || std::string_view(text) != "0";
  }()};
  return on;
}

}  // namespace

bool graphs_enabled() { return enabled().load(std::memory_order_relaxed); }
void set_graphs_enabled(bool on) { enabled().store(on); }

Graphs::Entry* Graphs::entry_of(std::span<void* const> addresses) {
  const auto at =
      std::ranges::find_if(entries_, [&](const Entry& e) { return std::ranges::equal(e.addresses, addresses); });
  if (at == entries_.end()) return nullptr;
  at->last_used = ++clock_;
  return &*at;
}

const smolder::cuda::Graph* Graphs::find(std::span<void* const> addresses) {
  static Counter& replayed = counter("graphs.replayed");
  Entry* const e = entry_of(addresses);
  if (!e || !e->graph) return nullptr;
  ++e->uses;
  replayed.add();
  return e->graph.get();
}

bool Graphs::wants(std::span<void* const> addresses) {
  if (entry_of(addresses)) return true;
  if (entries_.size() == kMost) {
    const auto oldest = std::ranges::min_element(entries_, {}, &Entry::last_used);
    unused_ += oldest->graph && oldest->uses == 0;
    entries_.erase(oldest);
    gave_up_ = unused_ > kMostUnused;
  }
  entries_.push_back({{addresses.begin(), addresses.end()}, nullptr, ++clock_, 0});
  return false;
}

const smolder::cuda::Graph& Graphs::add(std::span<void* const> addresses, std::unique_ptr<smolder::cuda::Graph> graph) {
  static Counter& captured = counter("graphs.captured");
  captured.add();
  Entry* const e = entry_of(addresses);
  e->graph = std::move(graph);
  return *e->graph;
}

void Staging::Slot::note(char* address) {
  const auto at = std::ranges::find(known, address);
  const bool is_new = at == known.end();
  varies = is_new ? varies + (known.front() ? kNew : 0) : std::max(varies - 1, 0);
  std::ranges::rotate(known.begin(), is_new ? std::prev(at) : at, is_new ? at : std::next(at));
  known.front() = address;
}

void Staging::replace(std::span<char*> addresses) {
  static Counter& staged = counter("graphs.staged");
  for (size_t i = 0; i < addresses.size(); ++i) {
    Slot& slot = slots_[i];
    const TouchedBytes& e = touched_[i];
    const int64_t bytes = e.end - e.begin;
    if (!slot.memory) {
      slot.note(addresses[i]);
      if (slot.varies < kVaries || bytes <= 0 || staged_bytes_ + bytes > kMostBytes) continue;
      slot.memory = allocate(static_cast<size_t>(bytes), device_);
      staged_bytes_ += bytes;
      staged.add();
    }
    addresses[i] = static_cast<char*>(slot.memory->data()) - e.begin;
  }
}

void Staging::copy_in(smolder::cuda::Stream& stream, std::span<char* const> addresses) const {
  for (size_t i = 0; i < addresses.size(); ++i) {
    const TouchedBytes& e = touched_[i];
    if (!slots_[i].memory || !e.copied_in) continue;
    smolder::cuda::copy_on_device(stream, slots_[i].memory->data(), addresses[i] + e.begin,
                                  static_cast<size_t>(e.end - e.begin));
  }
}

void Staging::copy_out(smolder::cuda::Stream& stream, std::span<char* const> addresses) const {
  for (size_t i = 0; i < addresses.size(); ++i) {
    const TouchedBytes& e = touched_[i];
    if (!slots_[i].memory || !e.copied_out) continue;
    smolder::cuda::copy_on_device(stream, addresses[i] + e.begin, slots_[i].memory->data(),
                                  static_cast<size_t>(e.end - e.begin));
  }
}

}  // namespace smolder::jit::cuda
