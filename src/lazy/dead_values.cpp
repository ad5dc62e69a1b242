#include "smolder/lazy/dead_values.h"

#include <array>
#include <new>

#include "smolder/lazy/lock.h"

namespace smolder::lazy {
namespace {

constinit std::array<DeadValues, kMaxDeviceTypes> g_dead{};

/// The rings of this thread. Trivial, so that reaching it needs no check whether it was constructed.
struct Rings {
  DeadRing* of[kMaxDeviceTypes];
  bool ended;
};
SMOLDER_THREAD_LOCAL Rings t_rings = {};

/// Gives the rings to other threads when this one ends. What is in them is taken as ever.
struct RingsEnd {
  ~RingsEnd() {
    for (DeadRing*& ring : t_rings.of) {
      if (ring) ring->owned.store(false, std::memory_order_release);
      ring = nullptr;
    }
    t_rings.ended = true;
  }
};

[[gnu::noinline]] void bury_slowly(Value* v) noexcept {
  DeadValues& dead = DeadValues::of(v->device);
  DeadRing*& ring = t_rings.of[static_cast<size_t>(v->device)];
  if (!ring && !t_rings.ended) {
    static thread_local RingsEnd end;
    ring = dead.claim_ring();
    if (ring && ring->push(v)) return;
  }
  dead.push(v);
}

}  // namespace

DeadValues& DeadValues::of(DeviceType type) { return g_dead[static_cast<size_t>(type)]; }

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
  DeadRing* const ring = t_rings.of[static_cast<size_t>(v->device)];
  if (!ring || !ring->push(v)) [[unlikely]]
    bury_slowly(v);
}

}  // namespace smolder::lazy
