// Ranks that NCCL connects, each on a device of its own.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "smolder/core/dtype.h"
#include "smolder/distributed/combine.h"
#include "smolder/distributed/nccl/library.h"

namespace smolder::distributed::nccl {

/// Whether NCCL is there.
bool is_available() noexcept;
/// A new id of a communicator, as bytes: one rank makes it, and all ranks need it.
std::string new_id();

/// How NCCL reduces a dtype; throws TypeError where it does not, ValueError for a reduction that it lacks.
struct Reduction {
  Type type;
  ReduceOp op;
};
Reduction reduction_of(Reduce reduce, DType dtype);

/// Calls queue work on a stream and return once it is queued; one thread makes them. `abort` and `fault` may come from
/// another. All throw DistBackendError where NCCL says so, or once it was aborted.
class Communicator {
 public:
  /// Waits for the others, unless `gives_up` throws: it is asked again and again.
  Communicator(int rank, int size, const std::string& id, int device, const std::function<void()>& gives_up);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  void all_reduce(const void* from, void* to, size_t count, Reduction r, DriverStream stream);
  void reduce(const void* from, void* to, size_t count, Reduction r, int root, DriverStream stream);
  void broadcast(const void* from, void* to, size_t bytes, int root, DriverStream stream);
  void all_gather(const void* from, void* to, size_t bytes, DriverStream stream);
  void reduce_scatter(const void* from, void* to, size_t count, Reduction r, DriverStream stream);
  /// Sends and receives between `begin` and `end` are one exchange.
  void begin();
  void send(const void* from, size_t bytes, int to, DriverStream stream);
  void receive(void* to, size_t bytes, int from, DriverStream stream);
  void end();

  /// The error that NCCL found by itself: a lost peer. Nothing while a call goes on.
  std::optional<std::string> fault();
  /// Ends all that goes on, also on the device; calls that wait throw.
  void abort() noexcept;

 private:
  void call(const char* name, const auto& make);
  [[noreturn]] void refuse(const char* name, Status status);

  const int device_;
  std::timed_mutex lock_;  ///< of `comm_`, around each call of NCCL
  Comm comm_ = nullptr;
  std::atomic<bool> aborted_{false};
};

}  // namespace smolder::distributed::nccl
