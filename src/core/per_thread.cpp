#include "smolder/core/per_thread.h"

#include <atomic>
#include <utility>
#include <vector>

namespace smolder::per_thread {
namespace {

/// Null before a thread's first value and after its last was destroyed: a destructor that asks for one then gets a new
/// one, which is left to the process.
thread_local std::vector<Slot>* t_slots = nullptr;

struct End {
  ~End() {
    std::vector<Slot>* const slots = std::exchange(t_slots, nullptr);
    for (const Slot& s : *slots) {
      if (s.value) s.destroy(s.value);
    }
    delete slots;
  }
};

}  // namespace

uint32_t next_index() {
  static std::atomic<uint32_t> next{0};
  return next.fetch_add(1, std::memory_order_relaxed);
}

Slot& slot(uint32_t index) {
  if (!t_slots) {
    t_slots = new std::vector<Slot>;
    static thread_local const End end;
  }
  if (index >= t_slots->size()) t_slots->resize(index + 1);
  return (*t_slots)[index];
}

}  // namespace smolder::per_thread
