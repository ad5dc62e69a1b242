#include "smolder/core/cuda/queue.h"

#include <array>
#include <atomic>
#include <cstring>

#include "smolder/core/error.h"

namespace smolder::cuda {
namespace {

constexpr int kMostDevices = 64;
std::array<std::atomic<Queue*>, kMostDevices> g_queues{};

}  // namespace

Queue::Queue(int device) : stream_(device), host_(device, kRingBytes), ring_(device, kRingBytes) {}

Queue& Queue::of(int device) {
  if (Queue* const known = existing(device)) return *known;
  SMOLDER_CHECK(device >= 0 && device < kMostDevices, RuntimeError, "there is no device cuda:", device);
  static std::mutex making;
  const std::lock_guard hold(making);
  if (Queue* const known = existing(device)) return *known;
  auto* const made = new Queue(device);
  g_queues[device].store(made, std::memory_order_release);
  return *made;
}

Queue* Queue::existing(int device) noexcept {
  return device >= 0 && device < kMostDevices ? g_queues[device].load(std::memory_order_acquire) : nullptr;
}

void* Queue::upload(const void* from, size_t bytes) {
  SMOLDER_INVARIANT(bytes <= kRingBytes);
  constexpr size_t kLine = 64;
  const size_t taken = (bytes + kLine - 1) / kLine * kLine;
  const std::lock_guard hold(mutex_);
  if (at_ + taken > kRingBytes) {
    stream_.synchronize();  // the fence: what was uploaded before has been read
    at_ = 0;
  }
  char* const host = static_cast<char*>(host_.data()) + at_;
  char* const there = static_cast<char*>(ring_.data()) + at_;
  std::memcpy(host, from, bytes);
  copy_to_device(stream_, there, host, bytes);
  at_ += taken;
  return there;
}

}  // namespace smolder::cuda
