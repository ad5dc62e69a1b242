#include "smolder/distributed/on_device.h"

#include <thread>

#include "smolder/distributed/error.h"

namespace smolder::distributed {
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

void OnDevice::launch(DeviceChannel& channel, smolder::cuda::Event& ready, QueuedJob& job, const Launch& launch) {
  channel.stream.wait(ready);
  launch(*channel.communicator, channel.stream.handle());
  auto end = std::make_unique<smolder::cuda::Event>(options_.device);
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
