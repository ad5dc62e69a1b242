// Runs generated CUDA C++ on the host: the host's compiler makes a library of it, with the few intrinsics that it uses
// defined here, and the threads of a block take turns. Slow, and shows what the text means where there is no device.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "smolder/jit/loop_ir.h"

namespace smolder::jit::test {

class CudaEmulator {
 public:
  /// Compiles the kernels; `compiler` is the command. Throws RuntimeError when that fails.
  CudaEmulator(std::span<const Kernel* const> kernels, const std::string& compiler);
  ~CudaEmulator();

  /// As `DeviceKernel::launch`, on memory of the host.
  void launch(size_t kernel, void* const* buffers, const int64_t* ints, const uint64_t* scalars, uint32_t* errors,
              int64_t positions) const;

 private:
  std::span<const Kernel* const> kernels_;
  std::string folder_;
  void* library_ = nullptr;
};

}  // namespace smolder::jit::test
