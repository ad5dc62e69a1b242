// NVRTC for CUDA on the host: what it makes of a program is its text, which the driver compiles when it is launched.
#include <cstring>
#include <string>
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
API Status nvrtcCompileProgram(NvrtcProgram, int, const char* const*) { return 0; }
API Status nvrtcGetProgramLogSize(NvrtcProgram, size_t* size) {
  *size = 1;
  return 0;
}
API Status nvrtcGetProgramLog(NvrtcProgram, char* log) {
  *log = 0;
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
