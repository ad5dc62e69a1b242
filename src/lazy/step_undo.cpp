#include "smolder/lazy/step_undo.h"

#include <utility>

#include "smolder/core/per_thread.h"

namespace smolder::lazy {

struct StepUndo::Log {
  std::vector<std::function<void()>> noted, failed, done;
  std::optional<size_t> updates;
};

StepUndo::Log& StepUndo::of_thread() {
  static const PerThread<Log> logs;
  return *logs;
}

void StepUndo::note(std::function<void()> undo, std::optional<size_t> updates) {
  Log& log = of_thread();
  if (!log.updates) log.updates = updates;
  log.noted.push_back(std::move(undo));
}

namespace {

void move_all(std::vector<std::function<void()>>& from, std::vector<std::function<void()>>& to) {
  for (auto& f : from) to.push_back(std::move(f));
  from.clear();
}

}  // namespace

std::optional<size_t> StepUndo::updates() { return of_thread().updates; }

std::vector<std::function<void()>> StepUndo::forget() {
  Log& log = of_thread();
  log.updates.reset();
  return std::exchange(log.noted, {});
}

void StepUndo::drop(std::vector<std::function<void()>> undo) {
  if (!undo.empty()) move_all(undo, of_thread().done);
}

void StepUndo::fail() {
  Log& log = of_thread();
  move_all(log.noted, log.failed);
}

void StepUndo::fail(std::vector<std::function<void()>> before) {
  Log& log = of_thread();
  move_all(log.failed, before);
  log.failed = std::move(before);
}

void StepUndo::settle() {
  Log& log = of_thread();
  const auto done = std::exchange(log.done, {}), failed = std::exchange(log.failed, {});
  for (auto f = failed.rbegin(); f != failed.rend(); ++f) (*f)();
}

}  // namespace smolder::lazy
