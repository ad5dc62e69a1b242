#include "smolder/core/cuda/nvrtc.h"

#include <memory>
#include <utility>
#include <vector>

#include "smolder/core/cuda/api.h"
#include "smolder/core/cuda/library.h"
#include "smolder/core/error.h"

namespace smolder::cuda {
namespace {

struct Nvrtc {
#define SMOLDER_DECLARE(member, name, parameters) Status(*member) parameters = nullptr;
  SMOLDER_CUDA_NVRTC(SMOLDER_DECLARE)
#undef SMOLDER_DECLARE
  const char* (*error_string)(Status) = nullptr;
};

const OpenLibrary<Nvrtc>& state() {
  static const auto* const opened =
      open_library<Nvrtc>({"libnvrtc.so", {".13", ".12", ""}, "pip install nvidia-cuda-nvrtc"},
                          [](const DynamicLibrary& library, Nvrtc& functions) {
#define SMOLDER_LOAD(member, name, parameters) functions.member = library.symbol<Status parameters>(#name);
                            SMOLDER_CUDA_NVRTC(SMOLDER_LOAD)
#undef SMOLDER_LOAD
                            functions.error_string = library.symbol<const char*(Status)>("nvrtcGetErrorString");
                          });
  return *opened;
}

const Nvrtc& nvrtc() {
  SMOLDER_CHECK(state().reason.empty(), RuntimeError, "kernels for CUDA cannot be compiled: ", state().reason);
  return state().functions;
}

void check(const Nvrtc& n, Status status, const char* call) {
  SMOLDER_CHECK(status == 0, RuntimeError, call, ": ", n.error_string(status));
}

std::pair<int, int> version() {
  int major = 0, minor = 0;
  check(nvrtc(), nvrtc().version(&major, &minor), "nvrtcVersion");
  return {major, minor};
}

}  // namespace

bool has_nvrtc() noexcept {
  try {
    return state().reason.empty();
  } catch (...) {
    return false;
  }
}

std::string nvrtc_missing() { return state().reason; }

void preload_nvrtc() {
  if (!has_nvrtc()) return;
  nvrtc_compile("__global__ void first() {}", "sm_90", {});
}

std::string nvrtc_version() {
  const auto [major, minor] = version();
  return std::to_string(major) + "." + std::to_string(minor);
}

bool nvrtc_is_at_least(int major, int minor) { return version() >= std::pair(major, minor); }

std::string nvrtc_compile(const std::string& source, const std::string& arch, std::span<const char* const> flags) {
  const Nvrtc& n = nvrtc();
  NvrtcProgram made = nullptr;
  check(n, n.create(&made, source.c_str(), "kernels.cu", 0, nullptr, nullptr), "nvrtcCreateProgram");
  const auto destroy = [&n](NvrtcProgram p) { n.destroy(&p); };
  const std::unique_ptr<OpaqueProgram, decltype(destroy)> program(made, destroy);
  const std::string target = "--gpu-architecture=" + arch;
  std::vector<const char*> options{target.c_str()};
  // NVRTC's own cache, in files: programs that compile side by side wait for each other there.
  if (nvrtc_is_at_least(12, 9)) options.push_back("--no-cache");
  options.insert(options.end(), flags.begin(), flags.end());
  const Status status = n.compile(made, static_cast<int>(options.size()), options.data());
  if (status != 0) {
    size_t size = 0;
    n.log_size(made, &size);
    std::string log(size, '\0');
    if (size > 0) n.log(made, log.data());
    raise<InternalError>("internal error: a generated kernel does not compile for ", arch, ": ", n.error_string(status),
                         "\n", log.c_str(), "\n", source);
  }
  size_t size = 0;
  check(n, n.cubin_size(made, &size), "nvrtcGetCUBINSize");
  std::string cubin(size, '\0');
  check(n, n.cubin(made, cubin.data()), "nvrtcGetCUBIN");
  return cubin;
}

}  // namespace smolder::cuda
