// Collectives of a group on a CUDA device.
#include <chrono>
#include <optional>

#include "smolder/core/cuda/queue.h"
#include "smolder/core/interrupt.h"
#include "smolder/core/running_source.h"
#include "smolder/distributed/error.h"
#include "smolder/distributed/group.h"
#include "smolder/distributed/timeline.h"
#include "smolder/distributed/waits.h"

namespace smolder::distributed {
namespace {

using Clock = std::chrono::steady_clock;
using smolder::cuda::Event;
using smolder::cuda::Queue;

constexpr std::chrono::microseconds kFirstLook{100}, kLastLook{5000};

/// A point of the device's queue.
std::unique_ptr<Event> point_of(int device, bool timed = false) {
  auto event = std::make_unique<Event>(device, timed);
  event->record(Queue::of(device).stream());
  return event;
}

}  // namespace

OnDevice& Group::on_device(int device) {
  if (options_.device_backend.empty()) {
    raise<DistBackendError>(options_.name, " has no backend for tensors on CUDA's devices");
  }
  const std::lock_guard hold(lock_);
  if (!on_device_)
    on_device_ = std::make_unique<OnDevice>(
        OnDevice::Options{device, "meet/" + std::to_string(number()) + "/nccl/", options_.store, [this] {
                            check();
                            check_interrupt();
                          }});
  if (on_device_->device() != device) {
    raise<DistBackendError>(options_.name, " is connected on cuda:", on_device_->device(),
                            ", and a tensor is on cuda:", device, ": one rank has one device");
  }
  return *on_device_;
}

std::shared_ptr<QueuedJob> Group::queue(std::string what, size_t bytes, int device, const Launch& launch,
                                        std::vector<BufferRef> kept) {
  check();
  OnDevice& here = on_device(device);
  auto job = std::make_shared<QueuedJob>();
  job->what = std::move(what);
  job->number = ++begun_;
  job->source = running_source();
  job->about.bytes = bytes;
  note_collective(number(), begun_);
  job->kept = std::move(kept);
  const bool timed = keeps_collectives();
  if (timed) job->begun = point_of(device, true);
  DeviceChannel& all = here.all();
  // Whoever connects or launches may wait for the others: that is watched, too.
  submit(job, collectives_, [this, job, &here, &all] { watch(*job, [&] { return here.fault(all); }); });
  {
    const std::lock_guard hold(lock_);
    last_queued_ = job;
  }
  try {
    here.connect(all, "all", rank(), size());
    Queue::of(device).precede(all.stream.handle());
    here.launch(all, *job, launch);
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    {
      std::unique_lock hold(job->lock);
      job->error = error;
      job->queued = true;
      job->ended.notify_all();
      job->ended.wait(hold, [&] { return job->done; });
    }
    try {
      std::rethrow_exception(error);
    } catch (const Interrupted&) {
      fail("it was interrupted within " + title(*job));
      throw;
    } catch (...) {
      lose(*job);
    }
  }
  return job;
}

std::shared_ptr<QueuedJob> Group::queue_transfer(std::string what, int device, int from, int to, Launch launch,
                                                 std::vector<BufferRef> kept) {
  check();
  OnDevice& here = on_device(device);
  auto job = std::make_shared<QueuedJob>();
  job->what = std::move(what);
  job->kept = std::move(kept);
  OnDevice::Pair& pair = here.pair(from, to);
  std::shared_ptr<Event> ready = point_of(device);
  submit(job, pair.worker, [this, job, &here, &pair, from, to, ready, launch = std::move(launch)] {
    try {
      here.connect(pair, std::to_string(from) + "-" + std::to_string(to), rank() == from ? 0 : 1, 2);
      pair.stream.wait(*ready);
      here.launch(pair, *job, launch);
      watch(*job, [&] { return here.fault(pair); });
    } catch (const std::exception& e) {
      if (failure().empty()) close(title(*job) + ": " + explain(*job, e.what()));
      throw;
    }
  });
  note_transfer(job);
  return job;
}

/// Waits until the device has done it, and closes the group where that does not come to pass.
void Group::watch(QueuedJob& job, const std::function<std::optional<std::string>()>& fault) {
  const auto began = Clock::now();
  auto look_again = began + kStuck;
  for (auto pause = kFirstLook;; pause = std::min(pause * 2, kLastLook)) {
    {
      std::unique_lock hold(job.lock);
      job.ended.wait_for(hold, pause, [&] { return job.queued && !job.end; });
      if (job.queued) {
        if (!job.end) std::rethrow_exception(job.error);
        if (job.end->done()) {
          job.kept.clear();
          return;
        }
      }
    }
    check();
    std::optional<std::string> why = fault();
    const auto now = Clock::now();
    if (why) {
      why = explain(job, *why);
    } else if (now - began > timeout()) {
      why = explain(job, "it took longer than " + std::to_string(timeout().count()) + "ms");
    } else if (now > look_again) {
      try {
        why = stuck(job, false);
      } catch (const DistError& e) {
        why = without_store(e);
      }
      look_again = Clock::now() + kStuck;
    }
    if (why) {
      close(title(job) + ": " + *why);
      throw DistBackendError(failure());
    }
  }
}

void Group::follow(const std::shared_ptr<QueuedJob>& job, int device) {
  {
    std::unique_lock hold(job->lock);
    while (!job->ended.wait_for(hold, Milliseconds{20}, [&] { return job->queued || job->done; })) {
      hold.unlock();
      check_interrupt();
      hold.lock();
    }
  }
  check();
  if (!job->end) return;
  std::unique_ptr<Event> waited = job->begun ? point_of(device, true) : nullptr;
  Queue::of(device).stream().wait(*job->end);
  if (waited) {
    note_queued_collective(device,
                           {.what = job->what,
                            .group = options_.name,
                            .number = job->number,
                            .bytes = job->about.bytes,
                            .source = job->source,
                            .waited_at = running_source()},
                           job, std::move(waited), point_of(device, true));
  }
}

void Group::check_on_device() const {
  const bool used = [this] {
    const std::lock_guard hold(lock_);
    return on_device_ != nullptr;
  }();
  if (used) check();
}

}  // namespace smolder::distributed
