#include "smolder/lazy/dead_values.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "smolder/lazy/batch_access.h"
#include "smolder/lazy/lock.h"

namespace smolder::lazy {
namespace {

constinit std::array<DeadValues, kMaxDevices> g_dead{};

/// The rings of this thread. Trivial, so that reaching it needs no check whether it was constructed, and small, as such
/// memory is scarce.
struct Rings {
  DeadRing* of[kMaxDeviceTypes];  ///< of the first device of each type
  DeadRing** others;              ///< of those of CUDA, by index; null until there is one
  bool ended;

  /// Null where `others` is.
  DeadRing** place(Device d) {
    return d.index == 0 ? &of[static_cast<size_t>(d.type)] : others ? &others[d.index] : nullptr;
  }
};
SMOLDER_THREAD_LOCAL Rings t_rings = {};

/// Gives the rings to other threads when this one ends. What is in them is taken as ever.
struct RingsEnd {
  ~RingsEnd() {
    const auto give = [](DeadRing*& ring) {
      if (ring) ring->owned.store(false, std::memory_order_release);
      ring = nullptr;
    };
    std::ranges::for_each(t_rings.of, give);
    if (t_rings.others) std::for_each_n(t_rings.others, kMaxCudaDevices, give);
    delete[] std::exchange(t_rings.others, nullptr);
    t_rings.ended = true;
  }
};

[[gnu::noinline]] void bury_slowly(Value* v) noexcept {
  DeadValues& dead = DeadValues::of(v->device);
  if (!t_rings.ended) {
    static thread_local RingsEnd end;
    if (v->device.index != 0 && !t_rings.others) t_rings.others = new (std::nothrow) DeadRing* [kMaxCudaDevices] {};
    DeadRing** const place = t_rings.place(v->device);
    if (place && !*place) {
      *place = dead.claim_ring();
      if (*place && (*place)->push(v)) return;
    }
  }
  dead.push(v);
}

}  // namespace

DeadValues& DeadValues::of(Device device) { return g_dead[number_of(device)]; }

void DeadValues::push(Value* v) noexcept {
  Value* head = stack_.load(std::memory_order_relaxed);
  do {
    v->next_free = head;
  } while (!stack_.compare_exchange_weak(head, v, std::memory_order_release, std::memory_order_relaxed));
}

DeadRing* DeadValues::claim_ring() noexcept {
  for (DeadRing* r = first(); r; r = r->next) {
    if (!r->owned.exchange(true, std::memory_order_acquire)) return r;
  }
  auto* const made = new (std::nothrow) DeadRing;
  if (!made) return nullptr;
  made->next = first();
  while (!rings_.compare_exchange_weak(made->next, made, std::memory_order_release, std::memory_order_acquire)) {
  }
  return made;
}

void bury(Value* v) noexcept {
  if (v->batched) [[unlikely]] {  // no tape made it
    delete_elements(v);
    return;
  }
  if (v->wrapper) [[unlikely]] {
    delete_wrapper(v);
    return;
  }
  DeadRing** const place = t_rings.place(v->device);
  if (!place || !*place || !(*place)->push(v)) [[unlikely]]
    bury_slowly(v);
}

}  // namespace smolder::lazy
