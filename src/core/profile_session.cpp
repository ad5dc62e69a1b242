// Profiles, from their beginning to their end: what is to be told of them, and what is asked for when they end.
#include <mutex>
#include <utility>

#include "smolder/core/cuda/timeline.h"
#include "smolder/core/memory_history.h"
#include "smolder/core/profile_store.h"

namespace smolder {

void ProfileStore::set_flags() {
  memory_detail::watch(memory_detail::kProfiled, with_memory > 0);
  using namespace profile_detail;
  g_on.store(static_cast<uint8_t>((sessions ? kSpans : 0) | (with_shapes ? kShapes : 0) | (with_memory ? kMemory : 0) |
                                  (with_devices ? kDevices : 0) | (with_flops ? kFlops : 0)),
             std::memory_order_relaxed);
}

ProfileSession::ProfileSession(ProfileOptions options) : options_(options) {
  ProfileStore& log = ProfileStore::get();
  const std::lock_guard hold(log.lock);
  first_span_ = log.spans.size();
  first_change_ = log.changes.size();
  ++log.sessions;
  log.with_shapes += options.shapes;
  log.with_memory += options.memory;
  log.with_devices += options.devices;
  log.with_flops += options.flops;
  log.set_flags();
}

ProfileLog ProfileSession::log() const {
  if (!running_) return {};
  cuda::settle_timeline(true);
  ProfileStore& log = ProfileStore::get();
  const std::lock_guard hold(log.lock);
  ProfileLog out;
  out.spans.assign(log.spans.begin() + static_cast<ptrdiff_t>(first_span_), log.spans.end());
  out.memory.assign(log.changes.begin() + static_cast<ptrdiff_t>(first_change_), log.changes.end());
  out.dropped = log.dropped;
  return out;
}

ProfileLog ProfileSession::stop() {
  ProfileLog out = log();
  if (!std::exchange(running_, false)) return out;
  ProfileStore& log = ProfileStore::get();
  bool last = false;
  {
    const std::lock_guard hold(log.lock);
    --log.sessions;
    log.with_shapes -= options_.shapes;
    log.with_memory -= options_.memory;
    log.with_devices -= options_.devices;
    log.with_flops -= options_.flops;
    log.set_flags();
    last = log.sessions == 0;
    if (last) {
      log.spans.clear();
      log.changes.clear();
      log.dropped = 0;
    }
  }
  if (last) cuda::forget_timeline();
  return out;
}

}  // namespace smolder
