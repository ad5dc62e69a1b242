// State of a group on a CUDA device: connections by NCCL, and streams of their own, so that computation goes on
// meanwhile. A thread of the group watches what is under way: the host waits for none of it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "smolder/core/cuda/driver.h"
#include "smolder/distributed/job.h"
#include "smolder/distributed/nccl/communicator.h"
#include "smolder/distributed/store.h"

namespace smolder::distributed {

/// A function that has NCCL queue a collective.
using Launch = std::function<void(nccl::Communicator&, smolder::cuda::DriverStream)>;

/// Ranks that are connected, and the stream of what they do.
struct DeviceChannel {
  explicit DeviceChannel(int device) : stream(device) {}
  smolder::cuda::Stream stream;
  std::unique_ptr<nccl::Communicator> communicator;  ///< written under the lock of OnDevice
};

class OnDevice {
 public:
  struct Options {
    int device;
    std::string meeting;             ///< what its keys in the store begin with
    std::shared_ptr<Store> store;    ///< where ranks meet
    std::function<void()> gives_up;  ///< throws, where to go on waiting for others is of no use
  };
  explicit OnDevice(Options options) : options_(std::move(options)), all_(options_.device) {}

  int device() const { return options_.device; }
  /// The channel of collectives, which all ranks share.
  DeviceChannel& all() { return all_; }
  /// The channel in which one rank sends to another. The two connect when they first do that, so each channel has a
  /// thread: who sends must not wait for who receives.
  struct Pair : DeviceChannel {
    using DeviceChannel::DeviceChannel;
    Worker worker;
  };
  Pair& pair(int from, int to);

  /// Connects the ranks, unless they are. `rank` and `size` are those on the channel, `name` is the channel's.
  nccl::Communicator& connect(DeviceChannel& channel, const std::string& name, int rank, int size);
  /// Queues work and its end on the channel's stream, which waits for what the work needs.
  void launch(DeviceChannel& channel, QueuedJob& job, const Launch& launch);
  /// The error that NCCL found by itself.
  std::optional<std::string> fault(DeviceChannel& channel);
  void abort();

 private:
  const Options options_;
  std::mutex lock_;
  bool aborted_ = false;
  DeviceChannel all_;
  std::map<std::pair<int, int>, std::unique_ptr<Pair>> pairs_;
};

}  // namespace smolder::distributed
