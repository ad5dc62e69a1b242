#include "smolder/jit/cuda/reports.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <ranges>
#include <utility>

#include "smolder/core/cuda/memory.h"
#include "smolder/core/cuda/queue.h"
#include "smolder/jit/cuda/device/report.h"
#include "smolder/jit/cuda/native/device.h"

namespace smolder::jit::cuda {

namespace {

constexpr size_t kGateBytes = 16;

std::mutex g_lock;
std::vector<std::shared_ptr<ErrorSlots>>& watched(int device) {
  static auto* const all = new std::array<std::vector<std::shared_ptr<ErrorSlots>>, kMaxCudaDevices>;
  return (*all)[device];
}
std::array<std::atomic<StepGate*>, kMaxCudaDevices> g_gates{};

}  // namespace

ErrorSlots::ErrorSlots(int device, std::vector<OpSite> sites)
    : device_(device), memory_(device, sites.size() * sizeof(Slot)), sites_(std::move(sites)) {
  const auto failed = reinterpret_cast<uint64_t>(StepGate::of(device).failed());
  std::fill_n(data(), sites_.size(), Slot{0, 0, failed, 0});
}

bool ErrorSlots::is_set(size_t i) const {
  return std::atomic_ref<uint64_t>(data()[i].bound_and_one).load(std::memory_order_relaxed) != 0;
}

bool ErrorSlots::any() const {
  return std::ranges::any_of(std::views::iota(size_t{0}, sites_.size()), [&](size_t i) { return is_set(i); });
}

void ErrorSlots::take(std::vector<IndexReport>& reports) {
  for (size_t i = 0; i < sites_.size(); ++i) {
    if (!is_set(i)) continue;
    Slot& slot = data()[i];
    reports.push_back({sites_[i], static_cast<int64_t>(slot.index), static_cast<int64_t>(slot.bound_and_one) - 1});
    slot.index = slot.bound_and_one = 0;
  }
}

StepGate::StepGate(int device)
    : device_(device),
      memory_(smolder::cuda::allocate(kGateBytes, device, smolder::cuda::Purpose::kGraph)),
      count_(device, sizeof(uint64_t)) {
  std::memset(count_.data(), 0, sizeof(uint64_t));
  smolder::cuda::fill(smolder::cuda::Queue::of(device).stream(), memory_->data(), 0, kGateBytes);
}

StepGate& StepGate::of(int device) {
  if (StepGate* const known = existing(device)) return *known;
  static std::mutex making;
  const std::lock_guard hold(making);
  if (StepGate* const known = existing(device)) return *known;
  auto* const made = new StepGate(device);
  g_gates[device].store(made, std::memory_order_release);
  return *made;
}

StepGate* StepGate::existing(int device) noexcept { return g_gates[device].load(std::memory_order_acquire); }

void StepGate::queue_count() const {
  const auto* const count = static_cast<const char*>(memory_->data()) + sizeof(uint64_t);
  NativeDevice::of(device_)
      .function(kCount, "count_step")
      ->launch(1, 1, words(failed(), count, count_.data()), {.waits = true});
}

uint64_t StepGate::passed() const {
  return std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(count_.data())).load(std::memory_order_acquire);
}

void StepGate::fail() const {
  smolder::cuda::fill(smolder::cuda::Queue::of(device_).stream(), memory_->data(), 1, sizeof(uint32_t));
}

void StepGate::reset() {
  smolder::cuda::fill(smolder::cuda::Queue::of(device_).stream(), memory_->data(), 0, sizeof(uint32_t));
  given_ = passed();
}

void watch(const std::shared_ptr<ErrorSlots>& slots) {
  const std::lock_guard hold(g_lock);
  auto& all = watched(slots->device());
  if (std::ranges::find(all, slots) == all.end()) all.push_back(slots);
}

std::vector<IndexReport> take_reports(int device, bool idle) {
  std::vector<IndexReport> reports;
  const std::lock_guard hold(g_lock);
  if (!idle) {
    if (std::ranges::none_of(watched(device), &ErrorSlots::any,
                             [](const auto& slots) -> const ErrorSlots& { return *slots; })) {
      return reports;
    }
    // Other threads of the kernel may yet write what is cleared.
    smolder::cuda::Queue::of(device).stream().synchronize();
  }
  for (const auto& slots : watched(device)) slots->take(reports);
  watched(device).clear();
  if (StepGate* const gate = reports.empty() ? nullptr : StepGate::existing(device)) gate->reset();
  return reports;
}

}  // namespace smolder::jit::cuda
