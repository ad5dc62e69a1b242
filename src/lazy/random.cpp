#include "smolder/lazy/random.h"

#include <random>
#include <utility>

#include "smolder/core/error.h"
#include "smolder/core/meta_device.h"
#include "smolder/core/per_thread.h"
#include "smolder/lazy/batch_access.h"
#include "smolder/lazy/modes.h"
#include "smolder/lazy/observers.h"

namespace smolder {

void Generator::manual_seed(uint64_t seed) { set_state({seed, 0}); }

uint64_t Generator::seed() {
  lazy::break_capture("Generator.seed()", capture_source());
  std::random_device device;
  const uint64_t high = device(), low = device(), fresh = high << 32 | low;
  manual_seed(fresh);
  return fresh;
}

uint64_t Generator::initial_seed() const {
  lazy::break_capture("initial_seed()", capture_source());
  return state().first;
}

std::pair<uint64_t, uint64_t> Generator::state() const {
  const std::lock_guard lock(mutex_);
  return {seed_, offset_};
}

void Generator::set_state(std::pair<uint64_t, uint64_t> state) {
  SMOLDER_CHECK(!lazy::BranchObserver::current(), RuntimeError,
                "a function of control flow can't set the state of a generator: it is recorded, and may never run");
  if (lazy::CaptureObserver* const c = lazy::CaptureObserver::current()) [[unlikely]]
    c->note_state(this, this->state(), state);
  const std::lock_guard lock(mutex_);
  std::tie(seed_, offset_) = state;
}

std::pair<uint64_t, uint64_t> Generator::advance(uint64_t by) {
  const std::lock_guard lock(mutex_);
  return {seed_, std::exchange(offset_, offset_ + by)};
}

std::pair<Scalar, Scalar> Generator::take(int64_t elements) {
  const bool in_batch = lazy::batch_depth() > 0;
  if (in_batch) [[unlikely]]
    elements = lazy::batched_draw(elements);
  if (lazy::BranchObserver* const b = lazy::BranchObserver::current()) [[unlikely]]
    b->note_draw(this, state());
  if (lazy::creation_mode() == meta_device_type()) {  // nothing is drawn for it
    const auto [seed, offset] = state();
    return {static_cast<int64_t>(seed), static_cast<int64_t>(offset)};
  }
  DrawLog::note(*this);
  const uint64_t words = (static_cast<uint64_t>(elements) + 3) / 4 * 2;
  const auto [seed, offset] = advance(words);
  if (lazy::CaptureObserver* const c = lazy::CaptureObserver::current()) [[unlikely]]
    c->note_draw(this, {seed, offset}, offset + words);
  const std::pair<Scalar, Scalar> out{static_cast<int64_t>(seed), static_cast<int64_t>(offset)};
  if (in_batch) [[unlikely]]
    lazy::note_batched_draw(out);
  return out;
}

void Generator::go_to(uint64_t offset) {
  if (lazy::CaptureObserver* const c = lazy::CaptureObserver::current()) [[unlikely]]
    c->note_move(this, state(), offset);
  const std::lock_guard lock(mutex_);
  offset_ = offset;
}

DrawLog::Draws& DrawLog::of_thread() {
  static const PerThread<Draws> all;
  return *all;
}

void DrawLog::note(Generator& generator) {
  if (lazy::eager_enabled()) return;
  Draws& all = of_thread();
  for (const Before& b : all) {
    if (b.generator == &generator && !b.alive.expired()) return;
  }
  const auto [seed, offset] = generator.state();
  all.push_back({&generator, generator.alive_, seed, offset});
}

DrawLog::Draws DrawLog::forget() { return std::exchange(of_thread(), {}); }

void DrawLog::undo(const Draws& draws) {
  for (const Before& b : draws) {
    const auto alive = b.alive.lock();
    if (!alive) continue;
    const std::lock_guard lock(b.generator->mutex_);
    // One that was seeded since goes its own way.
    if (b.generator->seed_ == b.seed && b.generator->offset_ > b.offset) b.generator->offset_ = b.offset;
  }
}

Generator& default_generator() {
  static auto* const kGenerator = new Generator;  // never destroyed: ops may run during exit
  return *kGenerator;
}

void manual_seed(uint64_t seed) { default_generator().manual_seed(seed); }

}  // namespace smolder
