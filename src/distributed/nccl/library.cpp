#include "smolder/distributed/nccl/library.h"

#include <cstdlib>

#include "smolder/core/cuda/library.h"
#include "smolder/distributed/error.h"

namespace smolder::distributed::nccl {
namespace {

const smolder::cuda::OpenLibrary<Library>& opened() {
  static const auto* const found = [] {
    // NCCL would reduce within the switch of NVLink by multicast where the GPUs have it. It binds that memory when a
    // communicator is made, and fails there where a machine's tenants are not allowed to, which is not found out
    // before.
    setenv("NCCL_NVLS_ENABLE", "0", 0);
    // All connections are made with the communicator, where others are waited for: a collective is queued and no more.
    setenv("NCCL_RUNTIME_CONNECT", "0", 0);
    return smolder::cuda::open_library<Library>(
        {"libnccl.so", {".2", ""}, "pip install nvidia-nccl-cu13"}, [](const DynamicLibrary& file, Library& library) {
#define SMOLDER_LOAD(member, name, parameters) library.member = file.symbol<Status parameters>(#name);
          SMOLDER_NCCL(SMOLDER_LOAD)
#undef SMOLDER_LOAD
          library.error_string = file.symbol<const char*(Status)>("ncclGetErrorString");
          library.last_error = file.symbol<const char*(Comm)>("ncclGetLastError");
        });
  }();
  return *found;
}

}  // namespace

const std::string& missing() noexcept { return opened().reason; }

const Library& library() {
  if (!missing().empty()) raise<DistBackendError>("the backend nccl is not there: ", missing());
  return opened().functions;
}

}  // namespace smolder::distributed::nccl
