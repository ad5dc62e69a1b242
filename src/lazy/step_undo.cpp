#include "smolder/lazy/step_undo.h"

#include <utility>

#include "smolder/core/per_thread.h"
#include "smolder/lazy/tape.h"

namespace smolder::lazy {

struct StepUndo::Log {
  std::vector<std::function<void()>> noted, failed, done;
  std::optional<size_t> updates;
};

StepUndo::Log& StepUndo::of_thread() {
  static const PerThread<Log> logs;
  return *logs;
}

void StepUndo::note(std::function<void()> undo, bool updates) {
  settle();
  if (updates && !of_thread().updates) of_thread().updates = Tape::cpu().size();
  of_thread().noted.push_back(std::move(undo));
}

namespace {

void move_all(std::vector<std::function<void()>>& from, std::vector<std::function<void()>>& to) {
  for (auto& f : from) to.push_back(std::move(f));
  from.clear();
}

}  // namespace

std::optional<size_t> StepUndo::updates() { return of_thread().updates; }

void StepUndo::forget() {
  Log& log = of_thread();
  log.updates.reset();
  if (!log.noted.empty()) move_all(log.noted, log.done);
}

void StepUndo::fail() {
  Log& log = of_thread();
  move_all(log.noted, log.failed);
}

void StepUndo::settle() {
  Log& log = of_thread();
  const auto done = std::exchange(log.done, {}), failed = std::exchange(log.failed, {});
  for (auto f = failed.rbegin(); f != failed.rend(); ++f) (*f)();
}

}  // namespace smolder::lazy
