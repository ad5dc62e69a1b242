#include "smolder/distributed/nccl/communicator.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <memory>
#include <thread>
#include <utility>

#include "smolder/core/background.h"
#include "smolder/core/cuda/driver.h"
#include "smolder/distributed/error.h"

namespace smolder::distributed::nccl {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook{2};          // between two questions whether to give up
constexpr milliseconds kParting{5'000};   // how long the others may take to say that they have all
constexpr milliseconds kPatience{1'000};  // how long a call may go on before NCCL is told that it is over

/// Work in a thread of its own, so that whoever waits for it can stop waiting.
class Beside {
 public:
  Beside(int device, std::function<Status()> work) {
    const SignalsBlocked quiet;
    std::thread([shared = shared_, device, work = std::move(work)] {
      Status status = kSuccess;
      std::exception_ptr error;
      try {
        smolder::cuda::make_current(device);
        status = work();
      } catch (...) {
        error = std::current_exception();
      }
      const std::lock_guard hold(shared->lock);
      shared->status = status;
      shared->error = error;
      shared->done = true;
      shared->ended.notify_all();
    }).detach();
  }
  bool wait(milliseconds patience) {
    std::unique_lock hold(shared_->lock);
    return shared_->ended.wait_for(hold, patience, [this] { return shared_->done; });
  }
  /// Once it is done. Throws what the work threw.
  Status status() {
    const std::lock_guard hold(shared_->lock);
    if (shared_->error) std::rethrow_exception(shared_->error);
    return shared_->status;
  }

 private:
  struct Shared {
    std::mutex lock;
    std::condition_variable ended;
    bool done = false;
    Status status = kSuccess;
    std::exception_ptr error;
  };
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace

bool is_available() noexcept { return smolder::cuda::is_available() && missing().empty(); }

std::string new_id() {
  UniqueId id;
  const Status status = library().unique_id(&id);
  if (status != kSuccess) raise<DistBackendError>("ncclGetUniqueId: ", library().error_string(status));
  return {id.bytes, sizeof id.bytes};
}

Reduction reduction_of(Reduce reduce, DType dtype) {
  const auto type = [&] {
    switch (dtype) {
      case DType::kBool:
      case DType::kUInt8:
        return Type::kUInt8;
      case DType::kInt8:
        return Type::kInt8;
      case DType::kInt32:
        return Type::kInt32;
      case DType::kInt64:
        return Type::kInt64;
      case DType::kFloat16:
        return Type::kFloat16;
      case DType::kFloat32:
        return Type::kFloat32;
      case DType::kFloat64:
        return Type::kFloat64;
      case DType::kBFloat16:
        return Type::kBFloat16;
      default:
        raise<TypeError>("Input tensor data type is not supported for NCCL process group: ", smolder::name(dtype));
    }
  }();
  const bool is_bool = dtype == DType::kBool;  // "any" and "all"
  switch (reduce) {
    case Reduce::kSum:
      return {type, is_bool ? ReduceOp::kMax : ReduceOp::kSum};
    case Reduce::kProduct:
      return {type, is_bool ? ReduceOp::kMin : ReduceOp::kProduct};
    case Reduce::kMin:
      return {type, ReduceOp::kMin};
    case Reduce::kMax:
      return {type, ReduceOp::kMax};
    default:
      raise<ValueError>("Cannot use ReduceOp.", distributed::name(reduce), " with NCCL");
  }
}

// Its calls block until they are queued, as those of a communicator that does not block start a thread each, which
// takes several times as long. What waits for the others is done on a thread that nobody has to wait for.
Communicator::Communicator(int rank, int size, const std::string& id, int device, const std::function<void()>& gives_up)
    : device_(device) {
  struct Made {
    Comm comm = nullptr;
    std::atomic<bool> wanted{true};
  };
  UniqueId unique{};
  std::memcpy(unique.bytes, id.data(), std::min(id.size(), sizeof unique.bytes));
  const auto made = std::make_shared<Made>();
  Beside connects(device, [=] {
    Config config;
    config.blocking = 1;
    const Status status = library().init(&made->comm, size, unique, rank, &config);
    if (status == kSuccess && !made->wanted) library().abort(made->comm);
    return status;
  });
  try {
    while (!connects.wait(kLook)) gives_up();
  } catch (...) {
    made->wanted = false;
    throw;
  }
  const Status status = connects.status();
  if (status != kSuccess) refuse("ncclCommInitRankConfig", status);
  comm_ = made->comm;
}

// Peers may still read what is here, so all say that they have what they need. Whoever does not come is not waited for.
Communicator::~Communicator() {
  if (aborted_ || !comm_) return;
  Beside parts(device_, [comm = comm_] {
    const Status status = library().finalize(comm);
    return status == kSuccess ? library().destroy(comm) : library().abort(comm);
  });
  parts.wait(kParting);
}

void Communicator::refuse(const char* name, Status status) {
  const char* const more = library().last_error(comm_);
  raise<DistBackendError>(name, ": ", library().error_string(status), more && *more ? ": " : "", more ? more : "");
}

void Communicator::call(const char* name, const auto& make) {
  smolder::cuda::make_current(device_);
  const std::lock_guard hold(lock_);
  const Status status = aborted_ ? kSuccess : make(comm_);
  if (aborted_) raise<DistBackendError>(name, ": it was aborted");
  if (status != kSuccess) refuse(name, status);
}

void Communicator::all_reduce(const void* from, void* to, size_t count, Reduction r, DriverStream stream) {
  call("ncclAllReduce", [&](Comm c) { return library().all_reduce(from, to, count, r.type, r.op, c, stream); });
}
void Communicator::reduce(const void* from, void* to, size_t count, Reduction r, int root, DriverStream stream) {
  call("ncclReduce", [&](Comm c) { return library().reduce(from, to, count, r.type, r.op, root, c, stream); });
}
void Communicator::broadcast(const void* from, void* to, size_t bytes, int root, DriverStream stream) {
  call("ncclBroadcast", [&](Comm c) { return library().broadcast(from, to, bytes, Type::kUInt8, root, c, stream); });
}
void Communicator::all_gather(const void* from, void* to, size_t bytes, DriverStream stream) {
  call("ncclAllGather", [&](Comm c) { return library().all_gather(from, to, bytes, Type::kUInt8, c, stream); });
}
void Communicator::reduce_scatter(const void* from, void* to, size_t count, Reduction r, DriverStream stream) {
  call("ncclReduceScatter", [&](Comm c) { return library().reduce_scatter(from, to, count, r.type, r.op, c, stream); });
}
void Communicator::begin() {
  call("ncclGroupStart", [](Comm) { return library().group_start(); });
}
void Communicator::send(const void* from, size_t bytes, int to, DriverStream stream) {
  call("ncclSend", [&](Comm c) { return library().send(from, bytes, Type::kUInt8, to, c, stream); });
}
void Communicator::receive(void* to, size_t bytes, int from, DriverStream stream) {
  call("ncclRecv", [&](Comm c) { return library().receive(to, bytes, Type::kUInt8, from, c, stream); });
}
void Communicator::end() {
  call("ncclGroupEnd", [](Comm) { return library().group_end(); });
}

std::optional<std::string> Communicator::fault() {
  const std::unique_lock hold(lock_, std::try_to_lock);
  if (!hold || aborted_ || !comm_) return std::nullopt;
  Status state = kSuccess;
  library().async_error(comm_, &state);
  if (state == kSuccess || state == kInProgress) return std::nullopt;
  const char* const more = library().last_error(comm_);
  return std::string(library().error_string(state)) + (more && *more ? std::string(": ") + more : "");
}

void Communicator::abort() noexcept {
  if (!comm_ || aborted_.exchange(true)) return;
  // A call that waits for a peer ends when NCCL is told.
  const std::unique_lock hold(lock_, kPatience);
  try {
    smolder::cuda::make_current(device_);
    library().abort(comm_);
  } catch (const std::exception&) {  // the device is lost
  }
}

}  // namespace smolder::distributed::nccl
