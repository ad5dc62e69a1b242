// A group of processes: its collectives one after the other, on a thread of its own, and what is said when one fails.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "smolder/distributed/communicator.h"
#include "smolder/distributed/job.h"
#include "smolder/distributed/on_device.h"

namespace smolder::distributed {

class Group {
 public:
  struct Options {
    int64_t number = 0;            ///< the same on all ranks, and of no other group of this process
    std::string name;              ///< "the default group"
    std::vector<int> ranks;        ///< of the world, in the group's order
    int rank = 0;                  ///< this process's, in the group
    std::shared_ptr<Store> store;  ///< where all ranks of the world see each other
    int store_rank = -1;           ///< the rank of the world that serves it, if one of them is known to
    std::string backend;           ///< of tensors on the CPU: "gloo"; empty: there is none
    std::string device_backend;    ///< of tensors on CUDA's devices: "nccl"; empty: there is none
    std::string address;           ///< that of this process, for its peers
    Milliseconds timeout{0};
  };
  /// After it the others are asked what they do, and between two such questions.
  static constexpr Milliseconds kStuck{500};

  /// Connects with the others. Throws DistBackendError where the backend's library is not there.
  explicit Group(Options options);
  ~Group();
  Group(const Group&) = delete;

  int rank() const { return options_.rank; }
  int size() const { return static_cast<int>(options_.ranks.size()); }
  const std::vector<int>& ranks() const { return options_.ranks; }
  const std::string& name() const { return options_.name; }
  int64_t number() const { return options_.number; }
  Milliseconds timeout() const;
  void set_timeout(Milliseconds timeout);

  /// A collective that a step will do, and the user's line.
  struct Planned {
    std::string what, where;
  };
  /// Tells the others what this rank does next in the group, in order, and looks at what they told of the same numbers.
  /// Throws DistBackendError where that differs: before any of it is begun here.
  void announce(const std::vector<Planned>& planned);

  using Body = std::function<void(Communicator&, Word, Job&)>;
  /// Begins a collective; they run in the order in which they were begun.
  std::shared_ptr<Job> begin(std::string what, Body body, About about = {});
  /// Waits for it. Throws DistBackendError, which names it and who did what instead; the group is of no use then.
  void finish(Job& job);
  void run(std::string what, Body body, About about = {});

  /// Sends a copy. Returns at once.
  void send(std::string what, const void* data, size_t bytes, int to, int64_t tag);
  /// Begins to receive into the job's own bytes.
  std::shared_ptr<Job> begin_receive(std::string what, size_t bytes, int from, int64_t tag);
  /// Waits for it. Returns who sent it.
  int finish_receive(Job& job);

  /// Has the collectives of a device queue one, by what `launch` calls: after all that the device's queue was given
  /// before. Throws as `finish` does where it cannot be queued; what goes wrong later `failure` says. `bytes`: of
  /// About.
  std::shared_ptr<QueuedJob> queue(std::string what, size_t bytes, int device, const Launch& launch,
                                   std::vector<BufferRef> kept = {});
  /// The same of a send to, or a receive from, another rank, for which no collective waits.
  std::shared_ptr<QueuedJob> queue_transfer(std::string what, int device, int from, int to, Launch launch,
                                            std::vector<BufferRef> kept);
  /// Lets what the device's queue is given from now on wait for it.
  void follow(const std::shared_ptr<QueuedJob>& job, int device);

  /// Says that this rank does not go on, and why: the others get that as their error.
  void fail(const std::string& why);
  /// Empty, or why the group is of no use any more.
  std::string failure() const;
  /// After a failure, the rank that serves the store stays until the others have found in it what they look for.
  void see_off();
  /// Throws `failure`, if there is one and the group used a device.
  void check_on_device() const;
  /// Waits until what was sent has arrived, and what devices were given is done. Throws what went wrong.
  void drain();

 private:
  OnDevice& on_device(int device);
  void watch(QueuedJob& job, const std::function<std::optional<std::string>()>& fault);
  void abort();
  void submit(const std::shared_ptr<Job>& job, Worker& worker, std::function<void()> body);
  void note_transfer(std::shared_ptr<Job> job);
  void wait(Job& job);
  std::optional<std::string> stuck(const Job& job, bool waits_here);
  std::vector<int> needed(const Job& job) const;
  void compare(const std::vector<Planned>& planned);
  [[noreturn]] void lose(const Job& job);
  std::string explain(const Job& job, const std::string& said);
  std::string title(const Job& job) const;
  std::string key(const char* of, int rank) const;
  std::string rank_text(int rank) const;
  void check() const;
  void check_has_cpu() const;

  void close(const std::string& why);
  std::string without_store(const std::exception& lost) const;
  /// The job that this rank waits for, as the others see it.
  static std::string posted(const Job& job);
  /// The same with the user's line.
  static std::string told(const Job& job);

  const Options options_;
  std::unique_ptr<Communicator> communicator_;  ///< null where there is no backend of the CPU's
  std::unique_ptr<OnDevice> on_device_;         ///< made when it is first needed
  mutable std::mutex lock_;
  std::string failure_;
  Milliseconds timeout_;
  uint64_t begun_ = 0;                 ///< by the thread that runs steps
  std::deque<std::string> announced_;  ///< by the same: what was told of last
  std::deque<std::shared_ptr<Job>> sending_;
  std::shared_ptr<Job> current_;      ///< what the worker of collectives does
  std::shared_ptr<Job> last_queued_;  ///< on a device
  Worker collectives_, receives_, sends_;
};

/// The groups of this process, by number. `find_group` throws where there is none.
void add_group(std::shared_ptr<Group> group);
std::shared_ptr<Group> find_group(int64_t number);
bool has_group(int64_t number);
void remove_group(int64_t number);
/// Says in all of them that this rank does not go on.
void fail_groups(const std::string& why);
/// Throws what a group says that failed, if one of them did and used a device.
void check_groups_on_devices();
/// Waits within bounds, where others find in this process what went wrong, until they have: before it ends.
void see_off_groups();

}  // namespace smolder::distributed
