#include "smolder/jit/cuda/reports.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <ranges>
#include <utility>

#include "smolder/core/cuda/queue.h"

namespace smolder::jit::cuda {
namespace {

std::mutex g_lock;
std::vector<std::shared_ptr<ErrorWords>>& watched(int device) {
  static auto* const all = new std::array<std::vector<std::shared_ptr<ErrorWords>>, kMaxCudaDevices>;
  return (*all)[device];
}

}  // namespace

ErrorWords::ErrorWords(int device, std::vector<OpSite> sites)
    : device_(device), memory_(device, sites.size() * sizeof(uint32_t)), sites_(std::move(sites)) {
  std::memset(memory_.data(), 0, sites_.size() * sizeof(uint32_t));
}

bool ErrorWords::is_set(size_t i) const {
  return std::atomic_ref<uint32_t>(data()[i]).load(std::memory_order_relaxed) != 0;
}

bool ErrorWords::any() const {
  return std::ranges::any_of(std::views::iota(size_t{0}, sites_.size()), [&](size_t i) { return is_set(i); });
}

void ErrorWords::take(std::vector<OpSite>& reports) {
  for (size_t i = 0; i < sites_.size(); ++i) {
    if (!is_set(i)) continue;
    reports.push_back(sites_[i]);
    data()[i] = 0;
  }
}

void watch(const std::shared_ptr<ErrorWords>& words) {
  const std::lock_guard hold(g_lock);
  auto& all = watched(words->device());
  if (std::ranges::find(all, words) == all.end()) all.push_back(words);
}

std::vector<OpSite> take_reports(int device, bool idle) {
  std::vector<OpSite> reports;
  const std::lock_guard hold(g_lock);
  if (!idle) {
    if (std::ranges::none_of(watched(device), &ErrorWords::any,
                             [](const auto& words) -> const ErrorWords& { return *words; })) {
      return reports;
    }
    // Other threads of the kernel may yet write what is cleared.
    smolder::cuda::Queue::of(device).stream().synchronize();
  }
  for (const auto& words : watched(device)) words->take(reports);
  watched(device).clear();
  return reports;
}

}  // namespace smolder::jit::cuda
