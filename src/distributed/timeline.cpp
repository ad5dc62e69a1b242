#include "smolder/distributed/timeline.h"

#include <atomic>
#include <mutex>
#include <utility>

namespace smolder::distributed {
namespace {

constexpr size_t kMost = 10'000;
std::atomic<bool> g_keeps{false};

struct Kept {
  std::mutex lock;
  std::vector<RanCollective> ran;
  static Kept& get() {
    static Kept* const kept = new Kept;  // threads may run when statics end
    return *kept;
  }
};

}  // namespace

void keep_collectives(bool keep) { g_keeps.store(keep, std::memory_order_relaxed); }
bool keeps_collectives() { return g_keeps.load(std::memory_order_relaxed); }

void note_collective_ran(RanCollective ran) {
  Kept& kept = Kept::get();
  const std::lock_guard hold(kept.lock);
  if (kept.ran.size() < kMost) kept.ran.push_back(std::move(ran));
}

std::vector<RanCollective> take_collectives() {
  Kept& kept = Kept::get();
  const std::lock_guard hold(kept.lock);
  return std::exchange(kept.ran, {});
}

}  // namespace smolder::distributed
