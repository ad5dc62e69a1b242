// Takes back steps that a device was given.
#include <algorithm>
#include <iterator>
#include <utility>

#include "smolder/lazy/tape.h"

namespace smolder::lazy {
namespace {

size_t bytes_kept(const Write& w) { return w.before->buffer ? w.before->buffer->bytes() : 0; }

/// Memory goes back from what was made to what was there before. `failed`: by this step, whose sure values are kept.
void take_back(GivenStep& step, bool failed) {
  std::vector<BufferRef> memory;
  for (const GivenStep::Donated& d : step.donated) memory.push_back(d.memory.lock());
  for (const GivenStep::Made& m : step.made) {
    const BufferRef made = m.memory.lock();
    if ((m.unsure || !failed) && made && m.value->buffer == made) m.value->buffer.reset();
  }
  for (size_t i = 0; i < step.donated.size(); ++i) step.donated[i].leaf->buffer = std::move(memory[i]);
  for (auto w = step.writes.rbegin(); w != step.writes.rend(); ++w) {
    w->tensor.impl()->value = std::move(w->before);
    w->tensor.impl()->written();  // its views hold what failed
  }
  DrawLog::undo(step.draws);
}

}  // namespace

void GivenSteps::add(GivenStep step) {
  for (const Write& w : step.writes) step.kept_bytes += bytes_kept(w);
  kept_bytes_ += step.kept_bytes;
  steps_.push_back(std::move(step));
}

void GivenSteps::add(Write write) {
  if (steps_.empty()) return;
  const size_t bytes = bytes_kept(write);
  steps_.back().kept_bytes += bytes;
  kept_bytes_ += bytes;
  steps_.back().writes.push_back(std::move(write));
}

GivenSteps::Undo GivenSteps::release(uint64_t passed) {
  Undo all;
  for (; !steps_.empty() && steps_.front().ticket <= passed; steps_.pop_front()) {
    kept_bytes_ -= steps_.front().kept_bytes;
    std::ranges::move(steps_.front().undo, std::back_inserter(all));
  }
  return all;
}

GivenSteps::Undo GivenSteps::take_back() {
  Undo all;
  for (GivenStep& step : steps_) std::ranges::move(step.undo, std::back_inserter(all));
  for (; !steps_.empty(); steps_.pop_back()) lazy::take_back(steps_.back(), steps_.size() == 1);
  kept_bytes_ = 0;
  return all;
}

bool GivenSteps::note(uint64_t serial, std::function<void()>& undo) {
  if (steps_.empty() || steps_.back().serial != serial) return false;
  steps_.back().undo.push_back(std::move(undo));
  return true;
}

}  // namespace smolder::lazy
