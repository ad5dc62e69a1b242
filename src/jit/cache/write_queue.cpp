#include "smolder/jit/cache/write_queue.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "smolder/core/background.h"

namespace smolder::jit {
namespace {

using Clock = std::chrono::steady_clock;

// Kernels come in bursts, and a transaction costs as much as several rows.
constexpr auto kGather = std::chrono::milliseconds(10);
// Hit counts and leases are worth less than a wake-up each. They come while a program starts; what the thread that
// writes them keeps for itself (150 KiB) is then taken before anyone looks for leaks.
constexpr auto kUseDelay = std::chrono::milliseconds(200);
constexpr size_t kMaxOps = 8192;

size_t size_of(const WriteOp& op) {
  const auto* record = std::get_if<CacheRecord>(&op);
  if (!record) return sizeof(WriteOp);
  return sizeof(WriteOp) + record->structure.size() + record->target.size() + record->payload.size() +
         record->source.size();
}

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

/// Everything below is guarded by `mutex`, except `apply`, which does not change.
struct WriteQueue::Shared {
  std::mutex mutex;
  std::condition_variable wake;  // the writer waits
  std::condition_variable done;  // flush() and stop() wait
  std::function<void(WriteBatch&&)> apply;
  WriteBatch pending;
  size_t pending_bytes = 0;
  Clock::time_point uses_due;  // when pending.uses shall be written
  uint64_t pushed = 0;         // operations and uses ever accepted
  uint64_t applied = 0;        // how many of them have been applied
  int flushers = 0;
  bool stopping = false;
  bool running = false;  // the thread was started and has not ended
  std::thread thread;
};

WriteQueue::WriteQueue(size_t max_bytes, std::function<void(WriteBatch&&)> apply)
    : max_bytes_(max_bytes), apply_(std::move(apply)), shared_(make_shared_state()) {}

WriteQueue::~WriteQueue() { stop(0); }

std::shared_ptr<WriteQueue::Shared> WriteQueue::make_shared_state() const {
  auto shared = std::make_shared<Shared>();
  shared->apply = apply_;
  return shared;
}

bool WriteQueue::start_thread(const std::shared_ptr<Shared>& shared) {
  if (shared->running) return true;
  const SignalsBlocked blocked;
  try {
    shared->thread = std::thread([shared] { work(shared); });
    shared->running = true;
  } catch (const std::system_error&) {
    shared->running = false;  // no thread to be had now; the next push tries again
  }
  return shared->running;
}

bool WriteQueue::push(WriteOp op) {
  Shared& s = *shared_;
  const size_t bytes = size_of(op);
  const std::lock_guard lock(s.mutex);
  if (s.stopping || s.pending.ops.size() >= kMaxOps || s.pending_bytes + bytes > max_bytes_) return false;
  if (!start_thread(shared_)) return false;
  s.pending.ops.push_back(std::move(op));
  s.pending_bytes += bytes;
  ++s.pushed;
  s.wake.notify_one();
  return true;
}

void WriteQueue::touch(int64_t id) {
  Shared& s = *shared_;
  const std::lock_guard lock(s.mutex);
  if (s.stopping || !start_thread(shared_)) return;
  if (s.pending.uses.empty()) {
    s.uses_due = Clock::now() + kUseDelay;
    s.wake.notify_one();
  }
  ++s.pending.uses[id];
  ++s.pushed;
}

bool WriteQueue::flush(double seconds) {
  const std::shared_ptr<Shared> s = shared_;
  const auto deadline = after(seconds);
  std::unique_lock lock(s->mutex);
  const uint64_t goal = s->pushed;
  ++s->flushers;
  s->wake.notify_one();
  const bool reached = s->done.wait_until(lock, deadline, [&] { return s->applied >= goal || !s->running; });
  --s->flushers;
  return reached && s->applied >= goal;
}

bool WriteQueue::stop(double seconds) {
  const std::shared_ptr<Shared> s = shared_;
  const auto deadline = after(seconds);
  std::unique_lock lock(s->mutex);
  s->stopping = true;
  s->wake.notify_one();
  const bool ended = s->done.wait_until(lock, deadline, [&] { return !s->running; });
  std::thread thread = std::move(s->thread);
  lock.unlock();
  if (!thread.joinable()) return ended;
  if (ended)
    thread.join();
  else
    thread.detach();
  return ended;
}

void WriteQueue::work(const std::shared_ptr<Shared>& shared) {
  Shared& s = *shared;
  std::unique_lock lock(s.mutex);
  const auto hurried = [&] { return s.stopping || s.flushers > 0; };
  for (;;) {
    while (s.pending.ops.empty() && !hurried()) {
      if (s.pending.uses.empty()) {
        s.wake.wait(lock);
      } else if (s.wake.wait_until(lock, s.uses_due) == std::cv_status::timeout) {
        break;
      }
    }
    if (!s.pending.ops.empty()) s.wake.wait_for(lock, kGather, hurried);
    WriteBatch batch = std::exchange(s.pending, {});
    const bool last = batch.last = s.stopping;
    s.pending_bytes = 0;
    const uint64_t reaches = s.pushed;
    if (batch.empty() && !last) {
      // A flusher found nothing to do, or waits for a batch that is already applied.
      s.done.notify_all();
      s.wake.wait(lock, [&] { return s.stopping || s.flushers == 0 || !s.pending.empty(); });
      continue;
    }
    lock.unlock();
    s.apply(std::move(batch));
    lock.lock();
    s.applied = reaches;
    s.done.notify_all();
    if (last) break;
  }
  s.running = false;
  s.done.notify_all();
}

void WriteQueue::before_fork() { shared_->mutex.lock(); }
void WriteQueue::after_fork_in_parent() { shared_->mutex.unlock(); }

void WriteQueue::after_fork_in_child() {
  // Its thread does not exist here, and its condition variables count waiters that never come: the
  // parent's state is left alone for ever, its handle to a thread included.
  static_cast<void>(new std::shared_ptr<Shared>(std::exchange(shared_, make_shared_state())));
}

}  // namespace smolder::jit
