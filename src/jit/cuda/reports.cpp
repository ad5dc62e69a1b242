#include "smolder/jit/cuda/reports.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

namespace smolder::jit::cuda {
namespace {

std::mutex g_lock;
std::vector<std::shared_ptr<ErrorWords>>& watched() {
  static auto* const all = new std::vector<std::shared_ptr<ErrorWords>>;
  return *all;
}

}  // namespace

ErrorWords::ErrorWords(int device, std::vector<OpSite> sites)
    : memory_(device, sites.size() * sizeof(uint32_t)), sites_(std::move(sites)) {
  std::memset(memory_.data(), 0, sites_.size() * sizeof(uint32_t));
}

void ErrorWords::take(std::vector<OpSite>& reports) {
  for (size_t i = 0; i < sites_.size(); ++i) {
    const std::atomic_ref<uint32_t> word(data()[i]);
    if (word.load(std::memory_order_relaxed) != 0 && word.exchange(0) != 0) reports.push_back(sites_[i]);
  }
}

void watch(const std::shared_ptr<ErrorWords>& words) {
  const std::lock_guard hold(g_lock);
  auto& all = watched();
  if (std::ranges::find(all, words) == all.end()) all.push_back(words);
}

std::vector<OpSite> take_reports(bool idle) {
  std::vector<OpSite> reports;
  const std::lock_guard hold(g_lock);
  for (const auto& words : watched()) words->take(reports);
  if (idle) watched().clear();
  return reports;
}

}  // namespace smolder::jit::cuda
