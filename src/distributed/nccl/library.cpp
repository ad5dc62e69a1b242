#include "smolder/distributed/nccl/library.h"

#include <cstdlib>

#include "smolder/core/cuda/library.h"
#include "smolder/distributed/error.h"

namespace smolder::distributed::nccl {
namespace {

struct Opened {
  Library library;
  std::string reason;  ///< why there is none
};

const Opened& opened() {
  static const Opened* const found = [] {
    auto* o = new Opened;
    // NCCL would reduce within the switch of NVLink by multicast where the GPUs have it. It binds that memory when a
    // communicator is made, and fails there where a machine's tenants are not allowed to, which is not found out
    // before.
    setenv("NCCL_NVLS_ENABLE", "0", 0);
    // All connections are made with the communicator, where others are waited for: a collective is queued and no more.
    setenv("NCCL_RUNTIME_CONNECT", "0", 0);
    try {
      const auto file =
          smolder::cuda::find_library({"libnccl.so", {".2", ""}, "pip install nvidia-nccl-cu13"}, &o->reason);
      if (!file) return o;
#define SMOLDER_LOAD(member, name, parameters) o->library.member = file->symbol<Status parameters>(#name);
      SMOLDER_NCCL(SMOLDER_LOAD)
#undef SMOLDER_LOAD
      o->library.error_string = file->symbol<const char*(Status)>("ncclGetErrorString");
      o->library.last_error = file->symbol<const char*(Comm)>("ncclGetLastError");
      o->reason.clear();
    } catch (const std::exception& e) {
      o->reason = e.what();
    }
    return o;
  }();
  return *found;
}

}  // namespace

const std::string& missing() noexcept { return opened().reason; }

const Library& library() {
  if (!missing().empty()) raise<DistBackendError>("the backend nccl is not there: ", missing());
  return opened().library;
}

}  // namespace smolder::distributed::nccl
