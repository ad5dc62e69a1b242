#include "smolder/core/fork.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <vector>

namespace smolder {

/// Leaked: a fork may come while statics are being destroyed.
struct ForkHandlers {
  /// The holder of the tape's lock, made once and never destroyed.
  std::atomic<ForkGuard*> tape{nullptr};
  std::mutex guards_mutex;  ///< held across a fork, taken after the tape's lock
  std::vector<ForkGuard*> guards;
  std::vector<ForkGuard*> told;  ///< by the fork under way, in order
  ForkGuard* told_tape = nullptr;
  std::mutex list_mutex;  ///< held across a fork, taken after the guards' locks
  ForkMutex* list = nullptr;

  static ForkHandlers& get() {
    static auto* const all = [] {
      auto* made = new ForkHandlers;
      // Once, as there is no way to unregister.
      pthread_atfork([] { get().prepare(); }, [] { get().finish(&ForkGuard::after_fork_in_parent); },
                     [] { get().finish(&ForkGuard::after_fork_in_child); });
      return made;
    }();
    return *all;
  }

  void prepare() {
    ForkGuard* const first = tape.load();
    if (first) first->before_fork();
    guards_mutex.lock();
    told_tape = first;
    told.assign(guards.rbegin(), guards.rend());
    std::ranges::stable_sort(told, {}, [](ForkGuard* g) { return g->rank_; });
    for (ForkGuard* g : told) g->before_fork();
    list_mutex.lock();
    ForkMutex::forking_ = true;
    take_list();
  }

  void finish(void (ForkGuard::*after)()) {
    ForkMutex::forking_ = false;
    for (ForkMutex* m = list; m; m = m->next_) m->mutex_.unlock();
    list_mutex.unlock();
    for (auto g = told.rbegin(); g != told.rend(); ++g) ((*g)->*after)();
    ForkGuard* const last = told_tape;
    guards_mutex.unlock();
    if (last) (last->*after)();
  }

  /// Takes all, whatever order others take them in: nobody is waited for while one is held. Threads that hold some give
  /// them back and then wait for the fork, so that this ends.
  void take_list() {
    for (ForkMutex* waited = list; waited;) {
      waited->mutex_.lock();
      ForkMutex* refused = list;
      while (refused && (refused == waited || refused->mutex_.try_lock())) refused = refused->next_;
      if (!refused) return;
      for (ForkMutex* m = list; m != refused; m = m->next_) {
        if (m != waited) m->mutex_.unlock();
      }
      waited->mutex_.unlock();
      waited = refused;
    }
  }

  void add(ForkMutex* m) {
    const std::lock_guard hold(list_mutex);
    m->next_ = list;
    if (list) list->before_ = m;
    list = m;
  }
  void remove(ForkMutex* m) {
    const std::lock_guard hold(list_mutex);
    (m->before_ ? m->before_->next_ : list) = m->next_;
    if (m->next_) m->next_->before_ = m->before_;
  }
};

void ForkGuard::watch_forks() {
  ForkHandlers& all = ForkHandlers::get();
  if (rank_ == ForkRank::kTape) return all.tape.store(this);
  const std::lock_guard lock(all.guards_mutex);
  all.guards.push_back(this);
}

void ForkGuard::forget_forks() noexcept {
  ForkHandlers& all = ForkHandlers::get();
  const std::lock_guard lock(all.guards_mutex);
  std::erase(all.guards, this);
}

std::atomic<bool> ForkMutex::forking_{false};
constinit thread_local int ForkMutex::held_ = 0;

void ForkMutex::wait_for_fork() { const std::lock_guard until_it_ends(ForkHandlers::get().list_mutex); }

ForkMutex::ForkMutex() { ForkHandlers::get().add(this); }
ForkMutex::~ForkMutex() { ForkHandlers::get().remove(this); }

}  // namespace smolder
