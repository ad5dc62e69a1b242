#include "smolder/jit/kernel_queue.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "smolder/core/background.h"
#include "smolder/core/counters.h"
#include "smolder/core/error.h"
#include "smolder/core/fork.h"
#include "smolder/core/interrupt.h"
#include "smolder/core/profile.h"
#include "smolder/core/thread_pool.h"
#include "smolder/jit/cache/kernel_cache.h"

namespace smolder::jit {

namespace {

constexpr int kMostThreads = 8;        ///< and half as many as the program computes with
constexpr size_t kMostOfProgram = 4;   ///< kernels that one program has,
constexpr size_t kMostText = 4096;     ///< and bytes of their text, unless it has one
constexpr size_t kMostWaiting = 4096;  ///< kernels: those that were launched least are dropped

thread_local bool awaited = false;

StandIns from_environment() {
  const char* const text = std::getenv("SMOLDER_CUDA_INTERPRETER");
  const std::string_view wanted = text && *text ? text : "behind";
  constexpr std::string_view kNames[] = {"off", "behind", "only", "random"};
  const auto it = std::ranges::find(kNames, wanted);
  SMOLDER_CHECK(it != std::end(kNames), ValueError,
                "SMOLDER_CUDA_INTERPRETER must be off, behind, only or random, is '", wanted, "'");
  return static_cast<StandIns>(it - std::begin(kNames));
}

/// Warns of what a job could not do, once a process.
void tell(const std::string& what) {
  static std::atomic<bool> told = false;
  record_event({"compile", "a kernel stays interpreted: " + what, ""});
  if (told.exchange(true)) return;
  std::fputs(("[smolder:compile] a kernel could not be compiled and stays interpreted: " + what + "\n").c_str(),
             stderr);
}

}  // namespace

StandIns stand_ins() {
  static const StandIns asked = from_environment();
  return awaited && asked == StandIns::kBehind ? StandIns::kNone : asked;
}

AwaitedKernels::AwaitedKernels(bool waits) : outer_(std::exchange(awaited, waits)) {}
AwaitedKernels::~AwaitedKernels() { awaited = outer_; }

// -- a kernel of two tiers

std::shared_ptr<const DeviceKernel> TieredKernel::stand_in() const {
  const std::lock_guard lock(mutex_);
  if (!draws_ && compiled_.load(std::memory_order_relaxed)) stand_in_ = nullptr;
  return stand_in_;
}

DeviceKernel::Tier TieredKernel::tier() const {
  if (!draws_ && compiled_.load(std::memory_order_acquire)) return Tier::kOwn;
  const std::shared_ptr<const DeviceKernel> other = stand_in();
  return other ? other->tier() : Tier::kOwn;
}

void TieredKernel::replace_stand_in(std::shared_ptr<const DeviceKernel> faster) {
  const std::lock_guard lock(mutex_);
  if (stand_in_ && stand_in_->tier() < faster->tier()) stand_in_ = std::move(faster);
}

void TieredKernel::launch(smolder::cuda::Stream& stream, std::span<const KernelArguments> calls) const {
  const DeviceKernel* const compiled = compiled_.load(std::memory_order_acquire);
  const int64_t number = launches_.load(std::memory_order_relaxed);
  const bool draws_own = draws_ && (static_cast<uint64_t>(number + 1) * 0x9e3779b97f4a7c15u >> 63) != 0;
  if (compiled && (!draws_ || draws_own)) {
    launches_.fetch_add(draws_ ? 1 : 0, std::memory_order_relaxed);
    // The compiled kernel is there, so the stand-in gives back its memory. Only a thread that queues work may do that.
    if (!draws_) stand_in();
    return compiled->launch(stream, calls);
  }
  static Counter& interpreted = counter("kernels.interpreted_launches");
  static Counter& quick = counter("kernels.quick_launches");
  launches_.fetch_add(1, std::memory_order_relaxed);
  const std::shared_ptr<const DeviceKernel> other = stand_in();
  if (other) (other->tier() == Tier::kInterpreted ? interpreted : quick).add();
  (other ? other.get() : compiled_.load(std::memory_order_acquire))->launch(stream, calls);
}

void TieredKernel::compute_scalars(uint64_t* scalars) const {
  if (computed_ == 0) return;
  const DeviceKernel* const compiled = compiled_.load(std::memory_order_acquire);
  if (compiled) return compiled->compute_scalars(scalars);
  const std::shared_ptr<const DeviceKernel> other = stand_in();
  (other ? other.get() : compiled_.load(std::memory_order_acquire))->compute_scalars(scalars);
}

void TieredKernel::take_over(std::shared_ptr<const DeviceKernel> compiled) {
  const std::lock_guard lock(mutex_);
  own_ = std::move(compiled);
  compiled_.store(own_.get(), std::memory_order_release);
}

// -- the queue

/// Everything is guarded by `mutex`.
struct KernelQueue::Shared {
  struct Waiting {
    Job job;
    std::shared_ptr<TieredKernel> kernel;
    bool is_wanted() const { return kernel.use_count() > 1; }
  };
  std::mutex mutex;
  std::condition_variable wake;  ///< threads wait
  std::condition_variable done;  ///< others wait for them
  std::vector<std::function<void()>> first;
  std::vector<Waiting> waiting, current;
  int busy = 0;           ///< threads that compile, and may hold locks
  int running = 0;        ///< threads that have not ended
  bool stopping = false;  ///< the process ends
  bool pausing = false;   ///< it forks
  int pauses = 0;         ///< others compile what they wait for
  std::vector<std::thread> threads;

  bool has_work() const { return !pausing && pauses == 0 && (!first.empty() || !waiting.empty()); }

  /// Takes the kernel that was launched most, and those that make one program with it.
  std::vector<Waiting> take() {
    std::erase_if(waiting, [](const Waiting& w) { return !w.is_wanted(); });
    std::vector<Waiting> batch;
    const auto worth = [](const Waiting& w) { return std::pair(w.kernel->launches(), w.job.text.size()); };
    size_t text = 0;
    while (!waiting.empty() && batch.size() < kMostOfProgram) {
      const auto best = std::ranges::max_element(waiting, {}, worth);
      const auto fits = [&] {
        return text + best->job.text.size() <= kMostText && best->job.target == batch.front().job.target;
      };
      if (!batch.empty() && !fits()) break;
      text += best->job.text.size();
      batch.push_back(std::move(*best));
      waiting.erase(best);
    }
    return batch;
  }
};

/// A child has neither the threads nor a device.
class KernelQueue::OverForks final : public ForkGuard {
 public:
  explicit OverForks(KernelQueue& queue) : ForkGuard(ForkRank::kCompiler), queue_(queue) { watch_forks(); }

 private:
  void before_fork() override {
    Shared& s = *queue_.shared_;
    std::unique_lock lock(s.mutex);
    s.pausing = true;
    s.done.wait(lock, [&] { return s.busy == 0; });
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
    queue_.shared_->stopping = (*parents)->stopping;
  }

  KernelQueue& queue_;
};

KernelQueue::KernelQueue() : shared_(std::make_shared<Shared>()) {}

KernelQueue& KernelQueue::get() {
  // Leaked: steps may run while statics are destroyed.
  static KernelQueue* const queue = [] {
    KernelCache::global();  // whose use at exit comes after the threads' end
    static auto* made = new KernelQueue;
    static OverForks watched(*made);
    std::atexit([] { made->finish(); });
    return made;
  }();
  return *queue;
}

/// One thread more where all are busy and there may be more. Under the lock.
bool KernelQueue::start(const std::shared_ptr<Shared>& shared) {
  Shared& s = *shared;
  if (s.stopping) return false;
  const int most = std::clamp(num_threads() / 2, 1, kMostThreads);
  if (s.running > s.busy || s.running >= most) {
    s.wake.notify_one();
    return true;
  }
  try {
    s.threads.push_back(start_background_thread([shared] { work(shared); }));
    ++s.running;
  } catch (const std::system_error&) {
    return s.running > 0;
  }
  return true;
}

std::shared_ptr<const DeviceKernel> KernelQueue::submit(Job job, std::shared_ptr<const DeviceKernel> stand_in) {
  const StandIns mode = stand_ins();
  auto kernel = std::make_shared<TieredKernel>(std::move(stand_in), mode == StandIns::kRandom);
  static Counter& stood_in = counter("kernels.interpreted");
  const std::shared_ptr<Shared> shared = shared_;
  Shared& s = *shared;
  const std::lock_guard lock(s.mutex);
  for (const auto* list : {&s.waiting, &s.current}) {
    const auto known = std::ranges::find_if(*list, [&](const Shared::Waiting& w) {
      return w.job.key == job.key && w.job.text == job.text && w.job.target_name == job.target_name;
    });
    if (known == list->end()) continue;
    known->kernel->replace_stand_in(kernel->stand_in());
    return known->kernel;
  }
  if (mode != StandIns::kOnly) {
    if (!start(shared)) return nullptr;
    if (s.waiting.size() >= kMostWaiting) return nullptr;
    s.waiting.push_back({std::move(job), kernel});
  }
  if (kernel->tier() == DeviceKernel::Tier::kInterpreted) stood_in.add();
  return kernel;
}

bool KernelQueue::submit(std::function<void()> work) {
  const std::shared_ptr<Shared> shared = shared_;
  const std::lock_guard lock(shared->mutex);
  if (!start(shared)) return false;
  shared->first.push_back(std::move(work));
  return true;
}

KernelQueue::Pause::Pause() : shared_(get().shared_) {
  const std::lock_guard lock(shared_->mutex);
  ++shared_->pauses;
}

KernelQueue::Pause::~Pause() {
  const std::lock_guard lock(shared_->mutex);
  if (--shared_->pauses == 0) shared_->wake.notify_all();
}

void KernelQueue::wait() {
  const std::shared_ptr<Shared> shared = shared_;
  Shared& s = *shared;
  const auto is_done = [&] { return s.running == 0 || (s.first.empty() && s.waiting.empty() && s.busy == 0); };
  for (;;) {
    check_interrupt();
    std::unique_lock lock(s.mutex);
    if (s.done.wait_for(lock, std::chrono::milliseconds(50), is_done)) return;
  }
}

void KernelQueue::finish() {
  const std::shared_ptr<Shared> shared = shared_;
  Shared& s = *shared;
  std::unique_lock lock(s.mutex);
  s.stopping = true;
  s.wake.notify_all();
  s.done.wait(lock, [&] { return s.running == 0; });
  std::vector<std::thread> threads = std::move(s.threads);
  lock.unlock();
  for (std::thread& t : threads) {
    if (t.joinable()) t.join();
  }
}

namespace {

/// A program of several kernels; each is kept in the cache.
void compile_batch(std::span<const KernelQueue::Job* const> jobs, std::span<TieredKernel* const> kernels) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<const Kernel*> all;
  for (const KernelQueue::Job* job : jobs) all.push_back(&job->kernel);
  SpanScope scope(SpanKind::kCompile, jobs[0]->kernel.name + " behind");
  if (Span* const span = scope.span()) span->count = static_cast<int64_t>(jobs.size());
  std::vector<ObjectCode> objects = jobs[0]->target->compile(all);
  for (size_t i = 0; i < jobs.size(); ++i) {
    const KernelQueue::Job& job = *jobs[i];
    auto object = std::make_shared<CompiledKernel>(job.target->load(objects[i].bytes));
    CacheRecord record;
    record.kind = "kernel";
    record.key = job.key;
    record.structure = job.text;
    record.target = job.target_name;
    record.source = std::move(objects[i].source);
    record.build_ms = objects[i].milliseconds;
    record.where = job.where;
    record.name = job.kernel.name;
    record.payload = std::move(objects[i].bytes);
    record_event({"compile", record.name, record.where, record.build_ms});
    const size_t bytes = record.payload.size();
    kernels[i]->take_over(std::static_pointer_cast<CompiledKernel>(
                              KernelCache::global().insert(std::move(record), std::move(object), bytes))
                              ->device);
  }
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  static Counter& compiled = counter("kernels.compiled");
  static Counter& behind = counter("kernels.compiled_behind");
  static Counter& micros = counter("kernels.compile_us");
  compiled.add(static_cast<int64_t>(jobs.size()));
  behind.add(static_cast<int64_t>(jobs.size()));
  micros.add(static_cast<int64_t>(ms * 1000));
}

}  // namespace

void KernelQueue::work(const std::shared_ptr<Shared>& shared) {
  Shared& s = *shared;
  std::unique_lock lock(s.mutex);
  while (!s.stopping) {
    if (!s.has_work()) {
      s.done.notify_all();
      s.wake.wait(lock);
      continue;
    }
    ++s.busy;
    std::function<void()> other;
    std::vector<Shared::Waiting> batch;
    if (!s.first.empty()) {
      other = std::move(s.first.front());
      s.first.erase(s.first.begin());
    } else {
      batch = s.take();
    }
    s.current.insert(s.current.end(), batch.begin(), batch.end());
    lock.unlock();
    try {
      if (other) other();
      std::vector<const Job*> jobs;
      std::vector<TieredKernel*> kernels;
      for (const Shared::Waiting& w : batch) jobs.push_back(&w.job), kernels.push_back(w.kernel.get());
      if (!jobs.empty()) compile_batch(jobs, kernels);
    } catch (const std::exception& e) {
      tell(e.what());
    }
    other = nullptr;
    lock.lock();
    std::erase_if(s.current, [&](const Shared::Waiting& w) {
      return std::ranges::any_of(batch, [&](const Shared::Waiting& x) { return x.kernel == w.kernel; });
    });
    lock.unlock();
    batch.clear();  // what nobody wants any more ends here
    lock.lock();
    --s.busy;
    s.done.notify_all();
  }
  --s.running;
  s.done.notify_all();
}

}  // namespace smolder::jit
