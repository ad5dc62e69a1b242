// The parts of NCCL that we call, declared here so that a build needs no header of it, and opened at run time. Their
// binary interface is that of NCCL 2.18 and later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "smolder/core/cuda/api.h"

namespace smolder::distributed::nccl {

using Status = int;
using Comm = struct OpaqueComm*;
using smolder::cuda::DriverStream;

inline constexpr Status kSuccess = 0, kInProgress = 7;

/// ncclUniqueId
struct UniqueId {
  char bytes[128];
};
/// ncclDataType_t
enum class Type : int {
  kInt8 = 0,
  kUInt8 = 1,
  kInt32 = 2,
  kUInt32 = 3,
  kInt64 = 4,
  kUInt64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBFloat16 = 9,
};
/// ncclRedOp_t
enum class ReduceOp : int { kSum = 0, kProduct = 1, kMax = 2, kMin = 3 };

/// ncclConfig_t, as NCCL 2.18 has it: later ones take the fields that they added to be unset.
struct Config {
  static constexpr int kUnset = std::numeric_limits<int>::min();
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = kUnset;
  int cga_cluster_size = kUnset, min_ctas = kUnset, max_ctas = kUnset;
  const char* net_name = nullptr;
  int split_share = kUnset;
};
static_assert(sizeof(Config) == 48);

/// FUNCTION(member, name in the library, parameters).
#define SMOLDER_NCCL(FUNCTION)                                                                                  \
  FUNCTION(version, ncclGetVersion, (int*))                                                                     \
  FUNCTION(unique_id, ncclGetUniqueId, (UniqueId*))                                                             \
  FUNCTION(init, ncclCommInitRankConfig, (Comm*, int, UniqueId, int, Config*))                                  \
  FUNCTION(finalize, ncclCommFinalize, (Comm))                                                                  \
  FUNCTION(destroy, ncclCommDestroy, (Comm))                                                                    \
  FUNCTION(abort, ncclCommAbort, (Comm))                                                                        \
  FUNCTION(async_error, ncclCommGetAsyncError, (Comm, Status*))                                                 \
  FUNCTION(all_reduce, ncclAllReduce, (const void*, void*, size_t, Type, ReduceOp, Comm, DriverStream))         \
  FUNCTION(reduce, ncclReduce, (const void*, void*, size_t, Type, ReduceOp, int, Comm, DriverStream))           \
  FUNCTION(broadcast, ncclBroadcast, (const void*, void*, size_t, Type, int, Comm, DriverStream))               \
  FUNCTION(all_gather, ncclAllGather, (const void*, void*, size_t, Type, Comm, DriverStream))                   \
  FUNCTION(reduce_scatter, ncclReduceScatter, (const void*, void*, size_t, Type, ReduceOp, Comm, DriverStream)) \
  FUNCTION(send, ncclSend, (const void*, size_t, Type, int, Comm, DriverStream))                                \
  FUNCTION(receive, ncclRecv, (void*, size_t, Type, int, Comm, DriverStream))                                   \
  FUNCTION(group_start, ncclGroupStart, ())                                                                     \
  FUNCTION(group_end, ncclGroupEnd, ())

#define SMOLDER_DECLARE(member, name, parameters) Status(*member) parameters = nullptr;
struct Library {
  SMOLDER_NCCL(SMOLDER_DECLARE)
  const char* (*error_string)(Status) = nullptr;  ///< ncclGetErrorString
  const char* (*last_error)(Comm) = nullptr;      ///< ncclGetLastError
};
#undef SMOLDER_DECLARE

/// Opens NCCL at the first call. Why it is not there, naming the package to install; empty where it is. Never throws.
const std::string& missing() noexcept;
/// Throws DistBackendError with that reason.
const Library& library();

}  // namespace smolder::distributed::nccl
