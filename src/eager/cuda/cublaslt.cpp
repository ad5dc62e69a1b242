#include "smolder/eager/cuda/cublaslt.h"

#include <string>

#include "smolder/core/cuda/library.h"
#include "smolder/core/error.h"

namespace smolder::eager::cuda {
namespace {

const smolder::cuda::OpenLibrary<CublasLt>& opened() {
  static const auto* const found = smolder::cuda::open_library<CublasLt>(
      {"libcublasLt.so", {".13", ".12", ""}, "pip install nvidia-cublas"},
      [](const DynamicLibrary& library, CublasLt& functions) {
#define SMOLDER_LOAD(member, name, parameters) functions.member = library.symbol<LtStatus parameters>(#name);
        SMOLDER_CUBLASLT(SMOLDER_LOAD)
#undef SMOLDER_LOAD
        functions.status_string = library.symbol<const char*(LtStatus)>("cublasLtGetStatusString");
        functions.version = library.symbol<size_t()>("cublasLtGetVersion");
      });
  return *found;
}

}  // namespace

const CublasLt& cublaslt() {
  const auto& o = opened();
  SMOLDER_CHECK(o.reason.empty(), RuntimeError, "there are no matrix products on CUDA: ", o.reason);
  return o.functions;
}

void check_lt(LtStatus status, const char* call) {
  SMOLDER_CHECK(status == 0, RuntimeError, "cuBLASLt, ", call, ": ", opened().functions.status_string(status));
}

}  // namespace smolder::eager::cuda
