#include "smolder/eager/cuda/cudnn.h"

#include "smolder/core/cuda/library.h"
#include "smolder/core/cuda/nvrtc.h"
#include "smolder/core/error.h"
#include "smolder/eager/cuda/cublaslt.h"

namespace smolder::eager::cuda {
namespace {

const smolder::cuda::OpenLibrary<Cudnn>& opened() {
  static const auto* const found = smolder::cuda::open_library<Cudnn>(
      {"libcudnn.so", {".9"}, "pip install nvidia-cudnn-cu13"}, [](const DynamicLibrary& library, Cudnn& functions) {
#define SMOLDER_LOAD(member, name, parameters) functions.member = library.symbol<DnnStatus parameters>(#name);
        SMOLDER_CUDNN(SMOLDER_LOAD)
#undef SMOLDER_LOAD
        functions.status_string = library.symbol<const char*(DnnStatus)>("cudnnGetErrorString");
        functions.version = library.symbol<size_t()>("cudnnGetVersion");
        // It opens these by name when an engine needs them, and finds what is open already.
        smolder::cuda::nvrtc_version();
        cublaslt();
      });
  return *found;
}

}  // namespace

const Cudnn& cudnn() {
  const auto& o = opened();
  SMOLDER_CHECK(o.reason.empty(), RuntimeError, "there is no cuDNN: ", o.reason);
  return o.functions;
}

int64_t cudnn_version() noexcept {
  const auto& o = opened();
  return o.reason.empty() ? static_cast<int64_t>(o.functions.version()) : 0;
}

void check_dnn(DnnStatus status, const char* call) {
  SMOLDER_CHECK(status == 0, RuntimeError, "cuDNN, ", call, ": ", opened().functions.status_string(status));
}

}  // namespace smolder::eager::cuda
