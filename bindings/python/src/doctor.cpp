// Which libraries `smolder doctor` finds: each is opened as a step would open it.
#include <functional>

#include "smolder/core/cuda/driver.h"
#include "smolder/core/cuda/nvrtc.h"
#include "smolder/eager/cuda/cublaslt.h"
#include "smolder/eager/cuda/cudnn.h"
#include "smolder/eager/cuda/cufft.h"
#include "smolder/eager/cuda/cusolver.h"
#include "smolder/jit/backend.h"
#include "src/tensor.h"
#include "src/without_gil.h"

namespace smolder::python {
namespace {

/// Says what `open` does, or why it cannot.
nb::dict found(const char* name, const char* stem, const std::function<std::string()>& open) {
  std::string version, reason;
  try {
    const WithoutGil nogil;
    version = open();
  } catch (const std::exception& e) {
    reason = e.what();
  }
  nb::dict out;
  out["name"] = name;
  out["file"] = stem;
  out["version"] = version;
  out["reason"] = reason;
  return out;
}

std::string driver_version() {
  SMOLDER_CHECK(cuda::is_available(), RuntimeError, cuda::unavailable_reason());
  const int v = cuda::driver_version();
  return "CUDA " + std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10);
}

std::string cudnn_version() {
  eager::cuda::cudnn();
  const int64_t v = eager::cuda::cudnn_version();
  return std::to_string(v / 10000) + "." + std::to_string(v % 10000 / 100) + "." + std::to_string(v % 100);
}

}  // namespace

void bind_doctor(nb::module_& m) {
  m.def("_find_code_generator",
        [] { return found("code generator", "libsmolder_llvm.so", [] { return jit::llvm_backend().target(); }); });
  m.def("_find_cuda", [] {
    nb::list out;
    out.append(found("CUDA driver", "libcuda.so", &driver_version));
    out.append(found("NVRTC", "libnvrtc.so", &cuda::nvrtc_version));
    out.append(found("cuBLASLt", "libcublasLt.so", [] {
      eager::cuda::cublaslt();
      return std::string();
    }));
    out.append(found("cuDNN", "libcudnn.so", &cudnn_version));
    out.append(found("cuSOLVER", "libcusolver.so", [] {
      eager::cuda::cusolver();
      return std::string();
    }));
    out.append(found("cuFFT", "libcufft.so", [] {
      eager::cuda::cufft();
      return std::string();
    }));
    return out;
  });
}

}  // namespace smolder::python
