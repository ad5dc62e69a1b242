#include "smolder/eager/cuda/cublaslt.h"

#include <string>

#include "smolder/core/cuda/library.h"
#include "smolder/core/error.h"

namespace smolder::eager::cuda {
namespace {

struct Opened {
  CublasLt functions;
  std::string reason;  ///< why there is none
};

const Opened& opened() {
  static const Opened* const found = [] {
    auto* o = new Opened;
    try {
      const auto library =
          smolder::cuda::find_library({"libcublasLt.so", {".13", ".12", ""}, "pip install nvidia-cublas"}, &o->reason);
      if (!library) return o;
      o->reason.clear();
#define SMOLDER_LOAD(member, name, parameters) o->functions.member = library->symbol<LtStatus parameters>(#name);
      SMOLDER_CUBLASLT(SMOLDER_LOAD)
#undef SMOLDER_LOAD
      o->functions.status_string = library->symbol<const char*(LtStatus)>("cublasLtGetStatusString");
      o->functions.version = library->symbol<size_t()>("cublasLtGetVersion");
    } catch (const std::exception& e) {
      o->reason = e.what();
    }
    return o;
  }();
  return *found;
}

}  // namespace

const CublasLt& cublaslt() {
  const Opened& o = opened();
  SMOLDER_CHECK(o.reason.empty(), RuntimeError, "there are no matrix products on CUDA: ", o.reason);
  return o.functions;
}

void check_lt(LtStatus status, const char* call) {
  SMOLDER_CHECK(status == 0, RuntimeError, "cuBLASLt, ", call, ": ", opened().functions.status_string(status));
}

}  // namespace smolder::eager::cuda
