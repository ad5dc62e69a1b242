#include "smolder/lazy/former.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "smolder/lazy/tensor.h"

namespace smolder::lazy {

std::atomic<bool> g_any_former{false};

namespace {

/// Storage that was left, and how many views and aliases of it there may be.
struct Former {
  uint32_t until;  ///< the version of who left it, which all that are of it have seen at most
  Tensor owner;
  uint32_t dependents;
};

/// Of one tensor that was given another's storage.
struct Left {
  std::vector<Former> formers;  ///< in order
  uint32_t dependents = 0;      ///< of the storage that it has now

  Former* of(const TensorImpl* view) {
    const auto it = std::ranges::find_if(formers, [&](const Former& f) { return view->seen_version <= f.until; });
    return it == formers.end() ? nullptr : &*it;
  }
};

// Both are of the process, and outlive every tensor.
std::mutex& mutex() {
  static auto* const out = new std::mutex;
  return *out;
}
std::unordered_map<const TensorImpl*, Left>& table() {
  static auto* const out = new std::unordered_map<const TensorImpl*, Left>;
  return *out;
}

/// One fewer is of a former storage. Returns what is to be let go of without the lock.
Tensor one_less(Left& left, Former* former) {
  if (--former->dependents > 0) return {};
  Tensor last = std::move(former->owner);
  left.formers.erase(left.formers.begin() + (former - left.formers.data()));
  return last;
}

/// One fewer is of the storage that `base` has now.
void one_less_now(TensorImpl* base) {
  const auto it = table().find(base);
  if (it != table().end() && it->second.dependents > 0) --it->second.dependents;
}

}  // namespace

void leave_storage(TensorImpl* self) {
  const uint32_t others = self->refs.load(std::memory_order_acquire) - 1;
  TensorImpl* const owner = new TensorImpl(self->value);
  const Tensor kept(owner);
  std::vector<Former> gone;  // without the lock
  const std::lock_guard hold(mutex());
  const auto [it, first] = table().try_emplace(self);
  Left& left = it->second;
  // Of those that the first assignment meets, some may be no views.
  const uint32_t dependents = others == 0 ? 0 : first ? others : left.dependents;
  left.dependents = 0;
  g_any_former.store(true, std::memory_order_relaxed);
  if (dependents == 0) {
    if (others == 0) gone = std::move(left.formers);
    if (self->base) one_less_now(self->base);
    return;
  }
  owner->inference = self->inference;
  owner->version = self->version;
  owner->moves = self->moves;
  if (self->base) {  // whose dependent it is in place of `self`
    self->base->refs.fetch_add(1, std::memory_order_relaxed);
    owner->base = self->base;
    owner->steps = self->steps;
    owner->detached = true;
    owner->saw_base();
  } else {
    owner->external = std::move(self->external);
  }
  left.formers.push_back({self->version, kept, dependents});
  self->moved();  // what is a view of `self` from now on has seen that
}

bool follow_storage(TensorImpl* view) {
  Tensor before, last;
  {
    const std::lock_guard hold(mutex());
    const auto it = table().find(view->base);
    Former* const former = it == table().end() ? nullptr : it->second.of(view);
    if (!former) return false;
    TensorImpl* const owner = former->owner.impl();
    owner->refs.fetch_add(1, std::memory_order_relaxed);
    before = Tensor(view->base);
    view->base->refs.fetch_sub(1, std::memory_order_relaxed);  // `before` has the other
    // What it is a view of to autograd is no more where its elements are: its history is its own.
    if (view->requires_grad || view->base->requires_grad) view->detached = true;
    view->base = owner;
    last = one_less(it->second, former);
  }
  return true;
}

void count_dependent(TensorImpl* base) {
  const std::lock_guard hold(mutex());
  if (const auto it = table().find(base); it != table().end()) ++it->second.dependents;
}

void forget_storage(TensorImpl* dying) {
  Left own;  // goes, as `last`, when the lock is gone
  Tensor last;
  const std::lock_guard hold(mutex());
  if (const auto it = table().find(dying); it != table().end()) {
    own = std::move(it->second);
    table().erase(it);
  }
  const auto it = table().find(dying->base);
  if (it == table().end()) return;
  if (Former* const former = it->second.of(dying)) {
    last = one_less(it->second, former);
  } else {
    one_less_now(dying->base);
  }
}

TensorImpl::~TensorImpl() {
  if (base && any_former()) [[unlikely]]
    forget_storage(this);  // what was given another's storage has a base too
  if (base && base->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) delete base;
}

}  // namespace smolder::lazy
