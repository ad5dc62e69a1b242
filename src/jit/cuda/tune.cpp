#include "smolder/jit/cuda/tune.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "smolder/core/counters.h"
#include "smolder/eager/cuda/tuned_products.h"
#include "smolder/jit/cache/kernel_cache.h"

namespace smolder::jit::cuda {
namespace {

using eager::cuda::ProductChoice;
using eager::cuda::ProductKey;

/// Rows of kind "product": nothing is run of them, so none is leased.
class StoredProducts final : public eager::cuda::ProductStore {
 public:
  std::optional<ProductChoice> find(const ProductKey& key) override {
    const DiskFind found = disk().find(cache_key(key));
    if (found.status != DiskFind::Status::kHit) return std::nullopt;
    disk().release(cache_key(key));
    auto choice = eager::cuda::parse_product_choice(found.record.payload);
    if (!choice) reject(key);
    return choice;
  }
  void keep(const ProductKey& key, const ProductChoice& choice, double milliseconds) override {
    if (!disk().available()) return;
    const CacheKey k = cache_key(key);
    CacheRecord record;
    record.kind = k.kind, record.key = k.key, record.structure = k.structure, record.target = k.target;
    record.name = "product " + key.problem;
    record.payload = to_text(choice);
    record.build_ms = milliseconds;
    disk().insert(std::move(record));
    disk().release(k);
  }
  void reject(const ProductKey& key) override { disk().discard(cache_key(key)); }

 private:
  static CacheKey cache_key(const ProductKey& key) {
    return {"product", hash_bytes(key.problem.data(), key.problem.size()), key.problem, key.target};
  }
  static DiskCache& disk() { return KernelCache::global().disk(); }
};

using Clock = std::chrono::steady_clock;
constexpr double kSlice = 0.02;  ///< seconds that trials may add to a run
constexpr double kRest = 4;      ///< times what trials took that others have to wait
constexpr int kRunsBefore = 2;

std::atomic<int> g_paused{0};

struct Pause {
  std::mutex lock;
  Clock::time_point until{};
};
Pause& pause() {
  static Pause p;
  return p;
}

}  // namespace

void InstanceTuning::set_pending(bool now) {
  static std::atomic<int64_t> count{0};
  static Counter& level = counter("tuning.pending");
  if (pending == now) return;
  pending = now;
  level.set(count += now ? 1 : -1);
}

void use_tuned_kernels() {
  if (!eager::cuda::uses_tuned_products()) eager::cuda::use_tuned_products(std::make_unique<StoredProducts>());
}

void pause_trials() { ++g_paused; }
void resume_trials() { --g_paused; }

bool wants_trials(InstanceTuning& tuning, const RunMode& mode) {
  if (!mode.tunes || tuning.done) return false;
  use_tuned_kernels();
  if (g_paused > 0) return false;
  if (tuning.runs < kRunsBefore) {  // most steps of a program run once
    ++tuning.runs;
    return mode.at_once;
  }
  tuning.set_pending(true);
  if (mode.at_once) return true;
  const std::lock_guard hold(pause().lock);
  return Clock::now() >= pause().until;
}

double seconds_for_trials(const RunMode& mode) { return mode.at_once ? 1e9 : kSlice; }

void note_trials(InstanceTuning& tuning, double seconds, bool done) {
  tuning.done = done;
  if (done) tuning.set_pending(false);
  const std::lock_guard hold(pause().lock);
  pause().until =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds * kRest));
}

}  // namespace smolder::jit::cuda
