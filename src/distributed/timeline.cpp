#include "smolder/distributed/timeline.h"

#include <atomic>
#include <mutex>
#include <utility>

#include "smolder/core/cuda/queue.h"
#include "smolder/core/cuda/timeline.h"

namespace smolder::distributed {
namespace {

constexpr size_t kMost = 10'000;
std::atomic<bool> g_keeps{false};

/// One on a device, until its events are read.
struct Queued {
  int device;
  RanCollective ran;
  std::shared_ptr<QueuedJob> job;
  std::unique_ptr<smolder::cuda::Event> waited, went_on;
};

struct Kept {
  std::mutex lock;
  std::vector<RanCollective> ran;
  std::vector<Queued> queued;
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

void note_queued_collective(int device, RanCollective ran, std::shared_ptr<QueuedJob> job,
                            std::unique_ptr<smolder::cuda::Event> waited,
                            std::unique_ptr<smolder::cuda::Event> went_on) {
  Kept& kept = Kept::get();
  const std::lock_guard hold(kept.lock);
  if (kept.queued.size() < kMost) {
    kept.queued.push_back({device, std::move(ran), std::move(job), std::move(waited), std::move(went_on)});
  }
}

std::vector<RanCollective> take_collectives() {
  Kept& kept = Kept::get();
  const std::lock_guard hold(kept.lock);
  for (Queued& q : std::exchange(kept.queued, {})) {
    q.went_on->synchronize();
    RanCollective& r = q.ran;
    for (const auto& [ns, event] : {std::pair{&r.begun_ns, q.job->begun.get()},
                                    {&r.started_ns, q.job->started.get()},
                                    {&r.ended_ns, q.job->end.get()},
                                    {&r.waited_ns, q.waited.get()},
                                    {&r.went_on_ns, q.went_on.get()}}) {
      *ns = smolder::cuda::host_time(smolder::cuda::Queue::of(q.device).stream(), *event);
    }
    kept.ran.push_back(std::move(r));
  }
  return std::exchange(kept.ran, {});
}

}  // namespace smolder::distributed
