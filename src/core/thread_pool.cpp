#include "smolder/core/thread_pool.h"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "smolder/core/background.h"
#include "smolder/core/counters.h"
#include "smolder/core/error.h"
#include "smolder/core/fork.h"

namespace smolder {
namespace {

constexpr int kMaxThreads = 1024;
/// Pieces a thread: enough to even out a late worker, few enough that claiming one costs nothing.
constexpr int kPiecesPerThread = 16;
constexpr std::chrono::microseconds kSpin{100};

thread_local bool inside_region = false, behind = false;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Sleeps while `word` holds `value`; may return early.
void futex_wait(std::atomic<uint32_t>& word, uint32_t value) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void futex_wake(std::atomic<uint32_t>& word, int threads) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0);
}
static_assert(sizeof(std::atomic<uint32_t>) == 4 && std::atomic<uint32_t>::is_always_lock_free);

int affinity_cpus() {
  // More processors than cpu_set_t holds make the call fail; the count online is then the best answer.
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

/// Processors this process may use: its affinity, cut to the control group's quota. Threads beyond a
/// quota do not run at the same time, and spinning eats it.
int usable_cpus() {
  int cpus = affinity_cpus();
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  if (file >> quota >> period && quota > 0 && period > 0) {
    cpus = std::min(cpus, std::max(1, static_cast<int>(std::lround(quota / period))));
  }
  return std::clamp(cpus, 1, kMaxThreads);
}

int default_threads() {
  const char* text = std::getenv("SMOLDER_NUM_THREADS");
  if (!text || !*text) return usable_cpus();
  char* end = nullptr;
  const long n = std::strtol(text, &end, 10);
  SMOLDER_CHECK(!*end && n >= 1 && n <= kMaxThreads, ValueError,
                "SMOLDER_NUM_THREADS must be a whole number from 1 to ", kMaxThreads, ", found '", text, "'");
  return static_cast<int>(n);
}

/// One job at a time, cut into equal pieces. Each thread has a share of them, neighbours, which it takes first; then
/// it takes what is left of the others'. So a thread meets the same part of an array in job after job, where its cache
/// has it, unless another thread is late.
///
/// `state_` holds epoch (16 bits), open (1) and the number of workers inside (15). A worker joins by
/// adding one while the job is open; the caller closes the job, then waits until nobody is inside. The
/// plain fields of `job_` are written only between: so a worker that wakes late finds the job closed,
/// or is counted and waited for. The epoch only tells a worker that there is news; when it wraps, a
/// worker may sit out a job, never more.
class Pool {
 public:
  int threads() {
    const int n = threads_.load(std::memory_order_relaxed);
    if (n != 0) [[likely]]
      return n;
    int expected = 0;
    threads_.compare_exchange_strong(expected, default_threads());
    return threads_.load();
  }

  void set_threads(int n) {
    std::lock_guard hold(dispatch_);
    stop_workers();
    threads_.store(n);
  }

  /// For a forked child: a pool in the place of the parent's, of which only the count is kept.
  static void remake_in(void* storage) {
    const int threads = static_cast<Pool*>(storage)->threads_.load();
    (new (storage) Pool)->threads_.store(threads);
  }

  void run(int64_t n, int64_t grain, RangeFn fn, void* context) {
    const int64_t threads = this->threads();
    std::unique_lock hold(dispatch_, std::defer_lock);
    if (n <= grain || threads == 1 || inside_region || !hold.try_lock()) return fn(context, 0, n);
    start_workers();

    const int64_t grains = (n - 1) / grain + 1;
    const int64_t pieces = std::min(threads * kPiecesPerThread, grains);
    job_.fn = fn;
    job_.context = context;
    job_.n = n;
    job_.piece = ((grains - 1) / pieces + 1) * grain;
    job_.pieces = (n - 1) / job_.piece + 1;
    job_.shares = std::min(job_.pieces, threads);
    job_.failed.store(false, std::memory_order_relaxed);
    for (int64_t i = 0; i < job_.shares; ++i) shares_[i].next.store(job_.first_of(i), std::memory_order_relaxed);

    open(static_cast<int>(job_.shares - 1));
    inside_region = true;
    take_pieces(0);
    inside_region = false;
    close();
    if (job_.failed.load(std::memory_order_relaxed)) std::rethrow_exception(std::exchange(job_.error, nullptr));
  }

 private:
  static constexpr uint32_t kOpen = 1u << 15, kInside = kOpen - 1, kEpoch = 1u << 16;

  struct Job {
    RangeFn fn;
    void* context;
    int64_t n, piece, pieces, shares;
    std::atomic<bool> failed{false};
    std::exception_ptr error;  ///< written by the thread that set `failed`

    int64_t first_of(int64_t share) const { return pieces * share / shares; }
  };
  /// A line each: every thread writes its own, until it helps another.
  struct alignas(64) Share {
    std::atomic<int64_t> next{0};  ///< piece
  };

  /// Announces the job to at most `helpers` workers; no system call while they spin.
  void open(int helpers) {
    helpers_.store(static_cast<uint32_t>(helpers), std::memory_order_relaxed);
    const uint32_t epoch = (state_.load(std::memory_order_relaxed) & ~(kEpoch - 1)) + kEpoch;
    state_.store(epoch | kOpen);  // sequentially consistent, like `parked_`: one side sees the other
    if (parked_.load() != 0) futex_wake(state_, helpers);
  }

  /// Lets nobody else in and waits for those inside.
  void close() {
    uint32_t state = state_.fetch_and(~kOpen) & ~kOpen;
    const auto give_up = std::chrono::steady_clock::now() + kSpin;
    while (state & kInside) {
      if (std::chrono::steady_clock::now() > give_up) return sleep_until_empty();
      for (int i = 0; i < 8; ++i) relax();
      state = state_.load(std::memory_order_acquire);
    }
  }

  void sleep_until_empty() {
    for (;;) {
      caller_sleeps_.store(1);  // set again each time: a worker leaving an earlier job may just have cleared it
      if ((state_.load() & kInside) == 0) break;
      futex_wait(caller_sleeps_, 1);
    }
    caller_sleeps_.store(0);
  }

  bool join() {
    uint32_t state = state_.load(std::memory_order_acquire);
    while ((state & kOpen) && (state & kInside) < helpers_.load(std::memory_order_relaxed)) {
      if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel)) return true;
    }
    return false;
  }

  void leave() {
    const uint32_t before = state_.fetch_sub(1);
    if ((before & (kOpen | kInside)) == 1 && caller_sleeps_.load() != 0) {
      caller_sleeps_.store(0);
      futex_wake(caller_sleeps_, 1);
    }
  }

  /// Takes parts of this thread's share and then of the others'.
  void take_pieces(int64_t thread) {
    for (int64_t i = 0; i < job_.shares; ++i) take_share((thread + i) % job_.shares);
  }

  void take_share(int64_t share) {
    const int64_t last = job_.first_of(share + 1);
    std::atomic<int64_t>& next = shares_[share].next;
    while (next.load(std::memory_order_relaxed) < last && !job_.failed.load(std::memory_order_relaxed)) {
      const int64_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= last) return;
      const int64_t begin = i * job_.piece;
      try {
        job_.fn(job_.context, begin, std::min(job_.n, begin + job_.piece));
      } catch (...) {
        if (!job_.failed.exchange(true, std::memory_order_relaxed)) job_.error = std::current_exception();
      }
    }
  }

  /// Waits until the epoch is no longer `seen`; returns the new one.
  uint32_t wait_for_news(uint32_t seen, bool spin) {
    const auto is_news = [seen](uint32_t state) { return (state & ~(kEpoch - 1)) != seen; };
    const auto deadline = std::chrono::steady_clock::now() + kSpin;
    do {
      for (int i = 0; i < 16; ++i) {
        const uint32_t state = state_.load(std::memory_order_acquire);
        if (is_news(state)) return state & ~(kEpoch - 1);
        relax();
      }
    } while (spin && std::chrono::steady_clock::now() < deadline);

    parked_.fetch_add(1);
    uint32_t state = state_.load();
    while (!is_news(state)) {
      futex_wait(state_, state);
      state = state_.load();
    }
    parked_.fetch_sub(1);
    return state & ~(kEpoch - 1);
  }

  void work(int64_t thread, uint32_t seen, bool spin) {
    inside_region = true;
    for (;;) {
      seen = wait_for_news(seen, spin);
      if (stop_.load(std::memory_order_acquire)) return;
      if (!join()) continue;
      take_pieces(thread);
      leave();
    }
  }

  /// Brings the workers to threads() - 1. Needs `dispatch_`.
  void start_workers() {
    const auto wanted = static_cast<size_t>(threads_.load(std::memory_order_relaxed) - 1);
    if (workers_.size() == wanted) [[likely]]
      return;
    const SignalsBlocked blocked;
    const uint32_t seen = state_.load() & ~(kEpoch - 1);
    const bool spin = static_cast<int>(wanted) < usable_cpus();  // else spinning takes a processor from a worker
    if (shares_.size() <= wanted) shares_ = std::vector<Share>(wanted + 1);
    try {
      while (workers_.size() < wanted) {
        const auto thread = static_cast<int64_t>(workers_.size()) + 1;
        workers_.emplace_back([this, thread, seen, spin] { work(thread, seen, spin); });
      }
    } catch (const std::system_error& e) {
      record_event({"fallback", std::string("fewer worker threads: ") + e.what(), "", 0});
      threads_.store(static_cast<int>(workers_.size()) + 1);
    }
  }

  /// Needs `dispatch_`.
  void stop_workers() {
    stop_.store(true, std::memory_order_release);
    state_.fetch_add(kEpoch);
    futex_wake(state_, kMaxThreads);
    for (std::thread& w : workers_) w.join();
    workers_.clear();
    stop_.store(false, std::memory_order_release);
  }

  std::mutex dispatch_;  ///< held by the caller for the length of its job; guards `workers_` too
  std::atomic<int> threads_{0};
  std::vector<std::thread> workers_;
  std::atomic<bool> stop_{false};
  Job job_;
  alignas(64) std::atomic<uint32_t> state_{0};
  std::atomic<uint32_t> helpers_{0};        ///< most workers the open job can use
  std::atomic<uint32_t> parked_{0};         ///< workers asleep on `state_`, or about to be
  std::atomic<uint32_t> caller_sleeps_{0};  ///< 1 while the caller sleeps until the last worker leaves
  std::vector<Share> shares_;               ///< one a thread, the caller's first
};

/// Storage of the pool: never destroyed, as workers may outlive any static, and remade in place in a
/// forked child, where the old one's threads do not exist and its lock may be held by one of them.
alignas(Pool) unsigned char pool_storage[sizeof(Pool)];

class PoolOverForks final : public ForkGuard {
 public:
  PoolOverForks() : ForkGuard(ForkRank::kNoLock) { watch_forks(); }

 private:
  void before_fork() override {}
  void after_fork_in_parent() override {}
  void after_fork_in_child() override { reset_pool_after_fork(); }
};

Pool& pool() {
  static Pool* made = [] {
    static PoolOverForks watched;
    return new (pool_storage) Pool;
  }();
  return *made;
}

}  // namespace

int num_threads() { return pool().threads(); }

void set_num_threads(int n) {
  SMOLDER_CHECK(n >= 1 && n <= kMaxThreads, ValueError, "set_num_threads expects a number from 1 to ", kMaxThreads,
                ", found ", n);
  SMOLDER_CHECK(!inside_region, RuntimeError, "set_num_threads cannot be called inside a parallel region");
  pool().set_threads(n);
}

bool in_parallel_region() { return inside_region; }

void parallel_for(int64_t n, int64_t grain, RangeFn fn, void* context) {
  if (n > 0) pool().run(n, std::max<int64_t>(grain, 1), fn, context);
}

SignalsBlocked::SignalsBlocked() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
}
SignalsBlocked::~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

bool in_background() { return behind; }

std::thread start_background_thread(std::function<void()> work) {
  // About a tenth of a processor's time where another thread wants it: less would make what that thread waits for, a
  // lock that this one holds, late.
  constexpr int kNice = 10;
  const SignalsBlocked blocked;
  return std::thread([work = std::move(work)] {
    setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);  // of this thread alone, on Linux
    inside_region = behind = true;
    work();
  });
}

void reset_pool_after_fork() {
  pool();
  inside_region = false;
  Pool::remake_in(pool_storage);
}

}  // namespace smolder
