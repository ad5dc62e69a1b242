#include "smolder/lazy/plan_queue.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include "smolder/core/background.h"
#include "smolder/core/counters.h"
#include "smolder/core/fork.h"
#include "smolder/core/interrupt.h"
#include "smolder/core/profile.h"
#include "smolder/core/thread_pool.h"
#include "smolder/jit/cache/kernel_cache.h"
#include "smolder/jit/compile.h"
#include "smolder/jit/emit.h"
#include "smolder/jit/kernel_queue.h"
#include "smolder/jit/switches.h"
#include "smolder/lazy/extract.h"
#include "smolder/lazy/long_steps.h"

namespace smolder::lazy {
namespace {

using Clock = std::chrono::steady_clock;

/// How much may wait, since a job holds a copy of its trace: how many jobs, and instructions in all (60 bytes each).
constexpr size_t kMostJobs = 128, kMostInstrs = size_t{1} << 18;
/// How long a job rests whose step came once: most come again within this, and short programs have ended.
constexpr auto kRest = std::chrono::milliseconds(20);
/// The cost in `Shared::credit` of compiling for a step that came once, and the credit at first.
constexpr int kGuess = 4, kMostCredit = 16;

Compiling from_environment() {
  const char* const text = std::getenv("SMOLDER_COMPILE");
  const std::string_view wanted = text && *text ? text : "behind";
  SMOLDER_CHECK(wanted == "wait" || wanted == "behind", ValueError, "SMOLDER_COMPILE must be wait or behind, is '",
                wanted, "'");
  return wanted == "wait" ? Compiling::kWait : Compiling::kBehind;
}

std::atomic<Compiling>& the_setting() {
  static std::atomic<Compiling> setting{from_environment()};
  return setting;
}

/// `exit` runs what was registered last first, and LLVM registers that parts of it are taken down when it first uses
/// them: so this is said again after plans were compiled.
void finish_before_exit() {
  constexpr int kMostTimes = 32;
  static std::atomic<int> times = 0;
  if (times.fetch_add(1) < kMostTimes) std::atexit([] { PlanQueue::get().finish(); });
}

/// The reasons for which the thread stops.
class Stopped final : public Interrupted {
 public:
  Stopped() : Interrupted("compiling was stopped") {}
  [[noreturn]] void rethrow(const std::string& /*note*/) const override { throw *this; }
};

}  // namespace

Compiling compiling() { return the_setting().load(std::memory_order_relaxed); }
void set_compiling(Compiling how) { the_setting() = how; }

/// Everything is guarded by `mutex`.
struct PlanQueue::Shared {
  std::mutex mutex;
  std::condition_variable wake;  ///< the thread waits
  std::condition_variable done;  ///< others wait for it
  std::vector<std::shared_ptr<PlanJob>> waiting;
  std::shared_ptr<PlanJob> current;
  bool busy = false;      ///< the thread may hold locks
  bool stopping = false;  ///< the process ends
  bool pausing = false;   ///< it forks
  bool running = false;   ///< the thread has not ended
  int waiters = 0;
  int credit = kMostCredit;
  std::thread thread;

  static bool is_wanted(const std::shared_ptr<PlanJob>& job) { return job.use_count() > 1; }

  void drop_unwanted() {
    std::erase_if(waiting, [](const auto& job) { return !is_wanted(job); });
  }

  /// Makes room for the last one, of what is worth least.
  void keep_bounds() {
    size_t instrs = 0;
    for (const auto& job : waiting) instrs += job->trace.instrs.size();
    while (waiting.size() > kMostJobs || (instrs > kMostInstrs && waiting.size() > 1)) {
      const auto least =
          std::ranges::min_element(waiting.begin(), waiting.end() - 1, {}, [](const auto& job) { return worth(*job); });
      instrs -= (*least)->trace.instrs.size();
      (*least)->trace = Trace();
      (*least)->state_.store(PlanJob::kDropped, std::memory_order_release);
      waiting.erase(least);
    }
  }

  static std::tuple<bool, int64_t> worth(const PlanJob& job) { return {job.came_ > 1, job.spent_ns_}; }

  /// The next job; null where none may begin now. `rest` is then when one that rests may.
  std::shared_ptr<PlanJob> take(Clock::time_point& rest) {
    drop_unwanted();
    const auto now = Clock::now();
    const auto may_begin = [&](const PlanJob& job) {
      if (job.came_ > 1 || waiters > 0) return true;
      if (credit < kGuess) return false;
      const auto rested = job.submitted_ + kRest;
      if (rested > now) rest = std::min(rest, rested);
      return rested <= now;
    };
    auto best = waiting.end();
    for (auto at = waiting.begin(); at != waiting.end(); ++at) {
      if (may_begin(**at) && (best == waiting.end() || worth(**at) > worth(**best))) best = at;
    }
    if (best == waiting.end()) return nullptr;
    std::shared_ptr<PlanJob> job = std::move(*best);
    waiting.erase(best);
    job->guessed_ = job->came_ <= 1 && waiters == 0;
    if (job->guessed_) credit -= kGuess;
    return job;
  }

  /// Is there something better to do than what is being done, for a step that came once?
  bool should_change() const {
    if (current->came_ > 1 || waiters > 0) return false;
    return std::ranges::any_of(waiting, [](const auto& job) { return job->came_ > 1; });
  }
};

/// A child has neither the thread nor what it was doing: its steps ask anew.
class PlanQueue::OverForks final : public ForkGuard {
 public:
  explicit OverForks(PlanQueue& queue) : ForkGuard(ForkRank::kCompiler), queue_(queue) { watch_forks(); }

 private:
  void before_fork() override {
    Shared& s = *queue_.shared_;
    std::unique_lock lock(s.mutex);
    s.pausing = true;
    s.done.wait(lock, [&] { return !s.busy; });
    static_cast<void>(lock.release());
  }
  void after_fork_in_parent() override {
    Shared& s = *queue_.shared_;
    s.pausing = false;
    s.wake.notify_all();
    s.mutex.unlock();
  }
  void after_fork_in_child() override {
    // Left alone for ever: its condition variables count waiters that never come.
    auto* const parents = new std::shared_ptr<Shared>(std::exchange(queue_.shared_, std::make_shared<Shared>()));
    Shared& s = **parents;
    const auto drop = [](PlanJob& job) { job.state_.store(PlanJob::kDropped, std::memory_order_release); };
    for (const auto& job : s.waiting) drop(*job);
    if (s.current) drop(*s.current);
    queue_.shared_->stopping = s.stopping;
  }

  PlanQueue& queue_;
};

PlanQueue::PlanQueue() : shared_(std::make_shared<Shared>()) {}

PlanQueue& PlanQueue::get() {
  // Leaked: steps may run while statics are destroyed.
  static PlanQueue* const queue = [] {
    static auto* made = new PlanQueue;
    static OverForks watched(*made);
    return made;
  }();
  return *queue;
}

bool PlanQueue::submit(std::shared_ptr<PlanJob> job) {
  // Objects that the thread would make at its first use are made here: it registers what it does at forks and at exit,
  // before what stops the thread there.
  static const bool prepared = [] {
    num_threads();
    jit::backend();
    jit::KernelCache::global();
    finish_before_exit();
    return true;
  }();
  static_cast<void>(prepared);
  const std::shared_ptr<Shared> shared = shared_;
  Shared& s = *shared;
  const std::lock_guard lock(s.mutex);
  if (s.stopping) return false;
  if (!s.running) {
    try {
      s.thread = start_background_thread([shared] { work(shared); });
    } catch (const std::system_error&) {
      return false;
    }
    s.running = true;
  }
  job->submitted_ = Clock::now();
  s.waiting.push_back(std::move(job));
  s.drop_unwanted();
  s.keep_bounds();
  s.wake.notify_one();
  return true;
}

void PlanQueue::note_run(PlanJob& job, int64_t ns) {
  const std::lock_guard lock(shared_->mutex);
  job.spent_ns_ += ns;
  if (++job.came_ == 2) shared_->wake.notify_one();
}

void PlanQueue::note_taken(PlanJob& job) {
  const std::lock_guard lock(shared_->mutex);
  shared_->credit = std::min(kMostCredit, shared_->credit + (job.guessed_ ? kGuess : 1));
}

void PlanQueue::wait() {
  const std::shared_ptr<Shared> shared = shared_;
  Shared& s = *shared;
  struct Waiter {
    Shared& s;
    explicit Waiter(Shared& shared) : s(shared) { change(1); }
    ~Waiter() { change(-1); }
    void change(int by) const {
      const std::lock_guard lock(s.mutex);
      s.waiters += by;
      s.wake.notify_one();
    }
  } waiter(s);
  const auto is_done = [&] {
    s.drop_unwanted();
    return !s.running || (s.waiting.empty() && !s.current);
  };
  for (;;) {
    check_interrupt();
    std::unique_lock lock(s.mutex);
    if (s.done.wait_for(lock, std::chrono::milliseconds(50), is_done)) return;
  }
}

void PlanQueue::finish() {
  const std::shared_ptr<Shared> shared = shared_;
  Shared& s = *shared;
  std::unique_lock lock(s.mutex);
  s.stopping = true;
  s.wake.notify_one();
  // However long the kernel at hand takes: `exit` goes on to take down what the code generator works with.
  s.done.wait(lock, [&] { return !s.running; });
  std::thread thread = std::move(s.thread);
  lock.unlock();
  if (thread.joinable()) thread.join();
}

/// Between two stages of the compiler, or two kernels, where the thread holds no lock that others know.
void PlanQueue::checkpoint() {
  Shared& s = *get().shared_;
  std::unique_lock lock(s.mutex);
  if (s.pausing) {
    s.busy = false;
    s.done.notify_all();
    s.wake.wait(lock, [&] { return !s.pausing; });
    s.busy = true;
  }
  if (s.stopping || !Shared::is_wanted(s.current) || s.should_change()) throw Stopped();
}

void PlanJob::compile() {
  const auto start = Clock::now();
  const jit::DisabledScope scope(disabled);
  if (!plan) {
    SpanScope span(SpanKind::kPlan, "build plan behind", trace.instrs[0].source);
    plan = jit::Plan::compile(to_graph(trace, produced, constant_sizes), options);
  }
  instance = plan->bind(constant_sizes ? std::vector<int64_t>{} : symbols);
  SMOLDER_INVARIANT(instance);  // a plan's guards hold at the sizes it was compiled from
  if (is_long(trace)) note_kernels_kept(trace, digest_of(plan_structure(trace, produced, options)));
  milliseconds += std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void PlanQueue::work(const std::shared_ptr<Shared>& shared) {
  static Counter& compiled = counter("plans.compiled_behind");
  Shared& s = *shared;
  const InterruptScope scope(&checkpoint);
  std::unique_lock lock(s.mutex);
  while (!s.stopping) {
    auto rest = Clock::time_point::max();
    if (s.pausing || !(s.current = s.take(rest))) {
      s.done.notify_all();
      if (rest == Clock::time_point::max()) {
        s.wake.wait(lock);
      } else {
        s.wake.wait_until(lock, rest);
      }
      continue;
    }
    PlanJob& job = *s.current;
    job.state_.store(PlanJob::kCompiling, std::memory_order_relaxed);
    s.busy = true;
    lock.unlock();
    PlanJob::State state = PlanJob::kReady;
    try {
      job.compile();
      finish_before_exit();
      compiled.add();
    } catch (const Stopped&) {
      state = PlanJob::kWaiting;
    } catch (const std::exception& e) {
      job.error = e.what();
      state = PlanJob::kFailed;
    }
    if (state != PlanJob::kWaiting) job.trace = Trace();
    lock.lock();
    job.state_.store(state, std::memory_order_release);
    if (state == PlanJob::kWaiting) {
      if (job.guessed_) s.credit += kGuess;
      s.waiting.push_back(s.current);
    }
    std::shared_ptr<PlanJob> done = std::move(s.current);
    lock.unlock();
    done.reset();  // where nobody wants it any more its plan ends here
    lock.lock();
    s.busy = false;
  }
  s.running = false;
  s.done.notify_all();
}

}  // namespace smolder::lazy

namespace smolder {

void wait_for_compiles() {
  lazy::PlanQueue::get().wait();
  jit::KernelQueue::get().wait();
}

}  // namespace smolder
