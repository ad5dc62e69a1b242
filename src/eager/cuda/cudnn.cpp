#include "smolder/eager/cuda/cudnn.h"

#include "smolder/core/cuda/library.h"
#include "smolder/core/cuda/nvrtc.h"
#include "smolder/core/error.h"
#include "smolder/eager/cuda/cublaslt.h"

namespace smolder::eager::cuda {
namespace {

struct Opened {
  Cudnn functions;
  std::string reason;  ///< why there is none
};

const Opened& opened() {
  static const Opened* const found = [] {
    auto* o = new Opened;
    try {
      const auto library =
          smolder::cuda::find_library({"libcudnn.so", {".9"}, "pip install nvidia-cudnn-cu13"}, &o->reason);
      if (!library) return o;
      o->reason.clear();
#define SMOLDER_LOAD(member, name, parameters) o->functions.member = library->symbol<DnnStatus parameters>(#name);
      SMOLDER_CUDNN(SMOLDER_LOAD)
#undef SMOLDER_LOAD
      o->functions.status_string = library->symbol<const char*(DnnStatus)>("cudnnGetErrorString");
      o->functions.version = library->symbol<size_t()>("cudnnGetVersion");
      // It opens these by name when an engine needs them, and finds what is open already.
      smolder::cuda::nvrtc_version();
      cublaslt();
    } catch (const std::exception& e) {
      o->reason = e.what();
    }
    return o;
  }();
  return *found;
}

}  // namespace

const Cudnn& cudnn() {
  const Opened& o = opened();
  SMOLDER_CHECK(o.reason.empty(), RuntimeError, "there is no cuDNN: ", o.reason);
  return o.functions;
}

int64_t cudnn_version() noexcept {
  const Opened& o = opened();
  return o.reason.empty() ? static_cast<int64_t>(o.functions.version()) : 0;
}

void check_dnn(DnnStatus status, const char* call) {
  SMOLDER_CHECK(status == 0, RuntimeError, "cuDNN, ", call, ": ", opened().functions.status_string(status));
}

}  // namespace smolder::eager::cuda
