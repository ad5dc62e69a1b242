#include "smolder/jit/cuda/replay.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
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
  if (gave_up_) return nullptr;
  Entry* const e = entry_of(addresses);
  if (!e || !e->graph) return nullptr;
  ++e->uses;
  replayed.add();
  return e->graph.get();
}

bool Graphs::wants(std::span<void* const> addresses) {
  if (gave_up_) return false;
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

}  // namespace smolder::jit::cuda
