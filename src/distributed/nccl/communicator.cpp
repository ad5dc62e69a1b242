#include "smolder/distributed/nccl/communicator.h"

#include <chrono>
#include <cstring>
#include <thread>

#include "smolder/core/cuda/driver.h"
#include "smolder/distributed/error.h"

namespace smolder::distributed::nccl {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::microseconds kPoll{50};
/// A call that only queues is done by then. To sleep, even for 50 microseconds, takes longer than it does.
constexpr std::chrono::microseconds kSpin{300};
constexpr std::chrono::seconds kParting{5};  // how long the others may take to say that they have all

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

Communicator::Communicator(int rank, int size, const std::string& id, int device, std::function<void()> gives_up)
    : device_(device), gives_up_(std::move(gives_up)) {
  UniqueId unique{};
  std::memcpy(unique.bytes, id.data(), std::min(id.size(), sizeof unique.bytes));
  smolder::cuda::make_current(device);
  Config config;
  config.blocking = 0;  // so that it can be aborted while it waits for the others
  const Status status = library().init(&comm_, size, unique, rank, &config);
  if (status != kSuccess && status != kInProgress) refuse("ncclCommInitRankConfig", status);
  try {
    call("ncclCommInitRankConfig", [&](Comm) { return status; });
  } catch (...) {
    abort();
    throw;
  }
}

Communicator::~Communicator() {
  const std::lock_guard hold(lock_);
  if (aborted_ || !comm_) return;
  // Peers may still read what is here, so all say that they have what they need. Whoever does not come is not waited
  // for.
  smolder::cuda::make_current(device_);
  Status status = library().finalize(comm_);
  for (const auto until = Clock::now() + kParting; status == kInProgress && Clock::now() < until;) {
    std::this_thread::sleep_for(kPoll);
    library().async_error(comm_, &status);
  }
  status == kSuccess ? library().destroy(comm_) : library().abort(comm_);
}

void Communicator::refuse(const char* name, Status status) {
  const char* const more = library().last_error(comm_);
  raise<DistBackendError>(name, ": ", library().error_string(status), more && *more ? ": " : "", more ? more : "");
}

void Communicator::call(const char* name, const std::function<Status(Comm)>& make) {
  smolder::cuda::make_current(device_);
  const auto check = [&] {
    if (aborted_) raise<DistBackendError>(name, ": it was aborted");
  };
  Status status = kSuccess;
  {
    const std::lock_guard hold(lock_);
    check();
    status = make(comm_);
  }
  for (const auto began = Clock::now(); status == kInProgress && !grouped_;) {
    if (Clock::now() - began < kSpin) {
      std::this_thread::yield();
    } else {
      gives_up_();
      std::this_thread::sleep_for(kPoll);
    }
    const std::lock_guard hold(lock_);
    check();
    Status state = kSuccess;
    status = library().async_error(comm_, &state);
    if (status == kSuccess) status = state;
  }
  if (status != kSuccess && status != kInProgress) refuse(name, status);
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
  grouped_ = true;
}
void Communicator::send(const void* from, size_t bytes, int to, DriverStream stream) {
  call("ncclSend", [&](Comm c) { return library().send(from, bytes, Type::kUInt8, to, c, stream); });
}
void Communicator::receive(void* to, size_t bytes, int from, DriverStream stream) {
  call("ncclRecv", [&](Comm c) { return library().receive(to, bytes, Type::kUInt8, from, c, stream); });
}
void Communicator::end() {
  grouped_ = false;
  call("ncclGroupEnd", [](Comm) { return library().group_end(); });
}

std::optional<std::string> Communicator::fault() {
  const std::lock_guard hold(lock_);
  if (aborted_ || !comm_) return std::nullopt;
  Status state = kSuccess;
  library().async_error(comm_, &state);
  if (state == kSuccess || state == kInProgress) return std::nullopt;
  const char* const more = library().last_error(comm_);
  return std::string(library().error_string(state)) + (more && *more ? std::string(": ") + more : "");
}

void Communicator::abort() noexcept {
  const std::lock_guard hold(lock_);
  if (aborted_ || !comm_) return;
  aborted_ = true;
  try {
    smolder::cuda::make_current(device_);
    library().abort(comm_);
  } catch (const std::exception&) {  // the device is lost
  }
}

}  // namespace smolder::distributed::nccl
