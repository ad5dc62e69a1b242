#include "smolder/lazy/turns.h"

#include <algorithm>
#include <utility>

#include "smolder/core/per_thread.h"

namespace smolder::lazy {
namespace {

struct Life {
  std::shared_ptr<std::atomic<bool>> ended = std::make_shared<std::atomic<bool>>(false);
  Turns::Thread thread = ended;
  ~Life() { *ended = true; }
};

}  // namespace

const Turns::Thread& Turns::this_thread() {
  static const PerThread<Life> lives;
  return lives->thread;
}

void Turns::take(size_t position) {
  const Thread& me = this_thread();
  last_ = current_ = me.get();
  turns_.push_back({position, me});
}

const Turns::Thread& Turns::recorder(size_t position) const {
  const auto after = std::ranges::upper_bound(turns_, position, {}, &Turn::begin);
  return std::prev(after)->thread;
}

void Turns::clear() {
  last_ = nullptr;
  turns_.clear();
}

Turns::Unheard Turns::hear() {
  const Thread& me = this_thread();
  const auto found = std::ranges::find_if(unheard_, [&](const Unheard& u) { return u.thread == me || *u.thread; });
  if (found == unheard_.end()) return {};
  Unheard out = std::move(*found);
  unheard_.erase(found);
  return out;
}

}  // namespace smolder::lazy
