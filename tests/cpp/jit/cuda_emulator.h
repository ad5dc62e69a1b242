// Kernels for CUDA, run on the host by cuda_host.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cuda_host/host_program.h"
#include "smolder/core/cuda/driver.h"
#include "smolder/jit/cuda/byte_code.h"
#include "smolder/jit/cuda/compiler.h"
#include "smolder/jit/cuda/native/device.h"
#include "smolder/jit/loop/loop_ir.h"

// Fibers confuse AddressSanitizer, and under it NVRTC takes minutes.
#if defined(__SANITIZE_ADDRESS__)
#define SKIP_UNDER_SANITIZER GTEST_SKIP() << "not under AddressSanitizer"
#else
#define SKIP_UNDER_SANITIZER
#endif

namespace smolder::jit::test {

using cuda_host::HostProgram;

/// The device that launches are planned for: few multiprocessors, so that blocks which walk have several positions.
inline const smolder::cuda::DeviceInfo& emulated_device() {
  static const auto* const info = [] {
    auto* device = new smolder::cuda::DeviceInfo;
    device->multiprocessors = 2;
    device->shared_bytes = 227 << 10;
    return device;
  }();
  return *info;
}

/// Kernels of loop IR.
class CudaEmulator {
 public:
  /// Compiles the kernels; `compiler` is the command. Throws RuntimeError when that fails.
  CudaEmulator(std::span<const Kernel* const> kernels, const std::string& compiler,
               cuda::Effort effort = cuda::Effort::kFull);

  /// As `DeviceKernel::launch`, on memory of the host.
  void launch(size_t kernel, void* const* buffers, const int64_t* ints, const uint64_t* scalars, uint32_t* errors,
              int64_t positions) const;
  /// Runs a kernel that has `together`; returns how many launches that took.
  size_t launch(size_t kernel, std::span<const KernelArguments> calls) const;

 private:
  /// A call whose numbers are those that the host computes, too.
  KernelArguments with_numbers(size_t kernel, KernelArguments call, std::vector<uint64_t>& words) const;

  std::span<const Kernel* const> kernels_;
  cuda::ProgramText text_;
  HostProgram program_;
};

/// The interpreter of loop IR on a device.
class InterpreterEmulator {
 public:
  /// There is one: it takes the host's compiler longer than the kernels of a test.
  static const InterpreterEmulator& get();
  /// As `DeviceKernel::launch`, on memory of the host.
  void launch(const Kernel& kernel, void* const* buffers, const int64_t* ints, const uint64_t* scalars,
              uint32_t* errors, int64_t positions) const;

 private:
  explicit InterpreterEmulator(const std::string& compiler) : program_(cuda::interpreter_text(), compiler) {}

  HostProgram program_;
};

/// Kernels written by hand. Memory is the host's.
class EmulatedDevice final : public cuda::NativeDevice {
 public:
  explicit EmulatedDevice(std::string compiler, int64_t shared_bytes = 227 << 10)
      : compiler_(std::move(compiler)), shared_bytes_(shared_bytes) {}
  cuda::NativeRef function(const std::string& program, const std::string& entry) override;
  int64_t shared_bytes() const override { return shared_bytes_; }
  BufferRef allocate(int64_t bytes) override { return smolder::allocate(static_cast<size_t>(bytes)); }
  void copy(void* to, const void* from, int64_t bytes) override { std::memcpy(to, from, static_cast<size_t>(bytes)); }
  void fill(void* to, unsigned char value, int64_t bytes) override {
    std::memset(to, value, static_cast<size_t>(bytes));
  }
  /// All that were asked for.
  std::vector<std::string> programs() const;

 private:
  std::string compiler_;
  int64_t shared_bytes_;
  std::map<std::string, std::shared_ptr<const HostProgram>> programs_;
};

}  // namespace smolder::jit::test
