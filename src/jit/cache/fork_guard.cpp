#include "smolder/jit/cache/fork_guard.h"

#include <pthread.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace smolder::jit {
namespace {

/// Leaked: a fork may come while statics are being destroyed.
struct Registry {
  std::mutex mutex;  // held across a fork
  std::vector<ForkGuard*> guards;
};
Registry& registry() {
  static auto* r = new Registry;
  return *r;
}

}  // namespace

struct ForkHandlers {
  static void prepare() {
    registry().mutex.lock();
    auto& guards = registry().guards;
    for (auto it = guards.rbegin(); it != guards.rend(); ++it) (*it)->before_fork();
  }
  static void parent() {
    for (ForkGuard* guard : registry().guards) guard->after_fork_in_parent();
    registry().mutex.unlock();
  }
  static void child() {
    for (ForkGuard* guard : registry().guards) guard->after_fork_in_child();
    registry().mutex.unlock();
  }
};

void ForkGuard::watch_forks() {
  // There is no way to unregister, so one set of handlers serves every guard for ever.
  static const int once = pthread_atfork(&ForkHandlers::prepare, &ForkHandlers::parent, &ForkHandlers::child);
  static_cast<void>(once);
  const std::lock_guard lock(registry().mutex);
  registry().guards.push_back(this);
}

void ForkGuard::forget_forks() noexcept {
  const std::lock_guard lock(registry().mutex);
  std::erase(registry().guards, this);
}

}  // namespace smolder::jit
