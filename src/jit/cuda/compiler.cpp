#include "smolder/jit/cuda/compiler.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "smolder/core/build_id.h"
#include "smolder/core/counters.h"
#include "smolder/core/cuda/nvrtc.h"
#include "smolder/core/error.h"
#include "smolder/jit/cuda/device/prelude.h"
#include "smolder/jit/cuda/kernel_emitter.h"
#include "smolder/jit/loop/kernel_bytes.h"

namespace smolder::jit::cuda {

namespace {

/// Each operation rounds as IEEE says. Generic lambdas are the device's. --minimal leaves out what a program would have
/// of textures and of CUDA's run time, 7 ms a program.
std::vector<const char*> flags(Contraction contraction, bool fast = false) {
  std::vector<const char*> all = {contraction == Contraction::kAllowed ? "--fmad=true" : "--fmad=false",
                                  "--ftz=false",
                                  "--prec-div=true",
                                  "--prec-sqrt=true",
                                  "--std=c++17",
                                  "--device-as-default-execution-space",
                                  "--disable-warnings"};
  if (smolder::cuda::nvrtc_is_at_least(12, 8)) all.push_back("--minimal");
  if (fast && smolder::cuda::nvrtc_is_at_least(13, 0)) all.push_back("--Ofast-compile=mid");
  const char* const host = std::getenv("SMOLDER_HOST_MATH");
  if (host && std::string_view(host) != "0") all.push_back("-DHOST_MATH");
  return all;
}
constexpr std::string_view kMagic = "smolder-cuda";

void append(std::string& bytes, std::string_view part) {
  const uint64_t size = part.size();
  bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
  bytes += part;
}

std::string take(std::string_view& rest) {
  uint64_t size = 0;
  SMOLDER_CHECK(rest.size() >= sizeof size, ValueError, "a kernel for CUDA is cut short");
  std::memcpy(&size, rest.data(), sizeof size);
  rest.remove_prefix(sizeof size);
  SMOLDER_CHECK(rest.size() >= size, ValueError, "a kernel for CUDA is cut short");
  std::string part(rest.substr(0, size));
  rest.remove_prefix(size);
  return part;
}

/// Names of ops hold what no identifier does where users chose them.
std::string entry_of(const Kernel& kernel, size_t number) {
  constexpr size_t kMost = 100;
  std::string entry = kernel.name.substr(0, kMost);
  std::ranges::replace_if(entry, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  if (!entry.empty() && std::isdigit(static_cast<unsigned char>(entry[0]))) entry.insert(0, 1, '_');
  if (kernel.together) entry += entry.empty() ? "together" : "_together";
  return entry + (entry.empty() ? "k" : "_k") + std::to_string(number);
}

void compile_program(std::span<const Kernel* const> kernels, const std::string& arch, Effort effort,
                     std::vector<ObjectCode>& out) {
  const auto start = std::chrono::steady_clock::now();
  for (const Kernel* k : kernels) verify(*k);
  ProgramText program = program_text(kernels, effort);
  const std::string cubin = compile_text(program.text, arch, Contraction::kNone, effort);
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  for (size_t i = 0; i < kernels.size(); ++i) {
    ObjectCode code;
    code.bytes = to_bytes(Object{program.entries[i], jit::to_bytes(*kernels[i]), cubin});
    code.source = std::move(program.kernels[i]);
    code.milliseconds = ms / static_cast<double>(kernels.size());
    out.push_back(std::move(code));
  }
}

}  // namespace

ProgramText program_text(std::span<const Kernel* const> kernels, Effort effort) {
  Functions functions;
  ProgramText program;
  for (const Kernel* k : kernels) {
    program.entries.push_back(entry_of(*k, program.entries.size()));
    program.kernels.push_back(KernelEmitter(*k, program.entries.back(), functions, effort).run());
  }
  program.text = kPrelude + functions.text();
  for (const std::string& k : program.kernels) program.text += k;
  return program;
}

std::string to_bytes(const Object& object) {
  std::string bytes(kMagic);
  for (const std::string* part : {&object.entry, &object.kernel, &object.cubin}) append(bytes, *part);
  return bytes;
}

Object object_from_bytes(const std::string& bytes) {
  std::string_view rest = bytes;
  SMOLDER_CHECK(rest.starts_with(kMagic), ValueError, "these bytes are no kernel for CUDA");
  rest.remove_prefix(kMagic.size());
  Object object;
  for (std::string* part : {&object.entry, &object.kernel, &object.cubin}) *part = take(rest);
  SMOLDER_CHECK(rest.empty(), ValueError, "a kernel for CUDA has bytes left over");
  return object;
}

std::string target_of(const std::string& arch, Contraction contraction) {
  static const char here = 0;
  return "cuda " + smolder::build_id(&here) + " " + arch + " nvrtc " + smolder::cuda::nvrtc_version() +
         flags_text(contraction);
}

std::string flags_text(Contraction contraction) {
  std::string text;
  for (const char* flag : flags(contraction)) text += std::string(" ") + flag;
  return text;
}

std::string compile_text(const std::string& text, const std::string& arch, Contraction contraction, Effort effort) {
  if (debug_level() >= 4) debug(4, "cuda", "\n" + text);
  static Counter& programs = counter("cuda.programs");
  static Counter& micros = counter("cuda.program_us");
  static Counter& slowest = counter("cuda.slowest_program_us");
  constexpr size_t kMostFast = 60000;  // bytes, of which more take NVRTC up to twice as long where it is to be fast
  const bool fast = effort == Effort::kQuick && text.size() < kMostFast;
  const auto start = std::chrono::steady_clock::now();
  std::string cubin = smolder::cuda::nvrtc_compile(text, arch, flags(contraction, fast));
  const auto us =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start).count();
  programs.add();
  micros.add(us);
  if (us > slowest.value()) slowest.set(us);
  return cubin;
}

std::vector<ObjectCode> compile(std::span<const Kernel* const> kernels, const std::string& arch, Effort effort) {
  std::vector<ObjectCode> objects;
  for (size_t i = 0; i < kernels.size(); i += kProgramKernels) {
    compile_program(kernels.subspan(i, std::min(kProgramKernels, kernels.size() - i)), arch, effort, objects);
  }
  return objects;
}

}  // namespace smolder::jit::cuda
