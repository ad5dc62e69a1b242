// NVRTC for CUDA on the host: what it makes of a program is its text, which the driver compiles when it is launched.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <type_traits>

#include "smolder/core/cuda/api.h"

#define API extern "C" __attribute__((visibility("default")))

namespace smolder::cuda {

struct OpaqueProgram {
  std::string text;
};

API Status nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return 0;
}
API Status nvrtcCreateProgram(NvrtcProgram* program, const char* text, const char*, int, const char* const*,
                              const char* const*) {
  *program = new OpaqueProgram{text};
  return 0;
}
API Status nvrtcDestroyProgram(NvrtcProgram* program) {
  delete *program;
  return 0;
}
// It takes SMOLDER_CUDA_HOST_NVRTC_MS for each program, and fails where that contains SMOLDER_CUDA_HOST_NVRTC_FAILS.
API Status nvrtcCompileProgram(NvrtcProgram program, int, const char* const*) {
  if (const char* const ms = std::getenv("SMOLDER_CUDA_HOST_NVRTC_MS")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(ms)));
  }
  const char* const part = std::getenv("SMOLDER_CUDA_HOST_NVRTC_FAILS");
  constexpr Status kCompilation = 6;
  return part && program->text.find(part) != std::string::npos ? kCompilation : 0;
}
constexpr const char* kLog = "it was told to fail";
API Status nvrtcGetProgramLogSize(NvrtcProgram, size_t* size) {
  *size = std::strlen(kLog) + 1;
  return 0;
}
API Status nvrtcGetProgramLog(NvrtcProgram, char* log) {
  std::strcpy(log, kLog);
  return 0;
}
API Status nvrtcGetCUBINSize(NvrtcProgram program, size_t* size) {
  *size = program->text.size() + 1;
  return 0;
}
API Status nvrtcGetCUBIN(NvrtcProgram program, char* cubin) {
  std::memcpy(cubin, program->text.c_str(), program->text.size() + 1);
  return 0;
}
API const char* nvrtcGetErrorString(int) { return "NVRTC on the host does not fail"; }

#define SAME_TYPE(member, name, parameters) static_assert(std::is_same_v<decltype(&name), Status(*) parameters>);
SMOLDER_CUDA_NVRTC(SAME_TYPE)

}  // namespace smolder::cuda
