#include "smolder/distributed/on_device.h"

#include <thread>

#include "smolder/core/cuda/timeline.h"
#include "smolder/distributed/error.h"
#include "smolder/distributed/timeline.h"

namespace smolder::distributed {
namespace {

/// The entry of a collective in a profile: it runs beside the steps of the plan, on a stream of its group's.
std::vector<Span> span_of(const QueuedJob& job) {
  Span span{.kind = SpanKind::kKernel, .name = "nccl: " + job.what, .source = job.source};
  span.bytes = static_cast<int64_t>(job.about.bytes);
  return {span};
}

}  // namespace

OnDevice::Pair& OnDevice::pair(int from, int to) {
  const std::lock_guard hold(lock_);
  std::unique_ptr<Pair>& found = pairs_[{from, to}];
  if (!found) found = std::make_unique<Pair>(options_.device);
  return *found;
}

nccl::Communicator& OnDevice::connect(DeviceChannel& channel, const std::string& name, int rank, int size) {
  if (channel.communicator) return *channel.communicator;
  const std::string key = options_.meeting + name;
  std::string id;
  if (rank == 0) {
    id = nccl::new_id();
    options_.store->set(key, id);
  } else {
    std::optional<std::string> said;
    while (!(said = options_.store->find(key))) {
      options_.gives_up();
      std::this_thread::sleep_for(Milliseconds{1});
    }
    id = *said;
  }
  auto made = std::make_unique<nccl::Communicator>(rank, size, id, options_.device, options_.gives_up);
  const std::lock_guard hold(lock_);
  if (aborted_) raise<DistBackendError>("the group is of no use any more");
  channel.communicator = std::move(made);
  return *channel.communicator;
}

void OnDevice::launch(DeviceChannel& channel, QueuedJob& job, const Launch& launch) {
  const bool timed = keeps_collectives();
  if (timed) {
    job.started = std::make_unique<smolder::cuda::Event>(options_.device, true);
    job.started->record(channel.stream);
  }
  {
    const smolder::cuda::TimedWork span(channel.stream, [&] { return span_of(job); });
    launch(*channel.communicator, channel.stream.handle());
  }
  auto end = std::make_unique<smolder::cuda::Event>(options_.device, timed);
  end->record(channel.stream);
  const std::lock_guard hold(job.lock);
  job.end = std::move(end);
  job.queued = true;
  job.ended.notify_all();
}

std::optional<std::string> OnDevice::fault(DeviceChannel& channel) {
  const std::lock_guard hold(lock_);
  return channel.communicator ? channel.communicator->fault() : std::nullopt;
}

void OnDevice::abort() {
  const std::lock_guard hold(lock_);
  aborted_ = true;
  if (all_.communicator) all_.communicator->abort();
  for (const auto& [ranks, pair] : pairs_) {
    if (pair->communicator) pair->communicator->abort();
  }
}

}  // namespace smolder::distributed
