// The interpreter of loop IR on a device, without one. That it gives the bits of generated kernels is tested beside
// them (cuda_kernel_test.cpp).
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>

#include "jit/cuda_emulator.h"
#include "jit/kernel_samples.h"
#include "jit/random_kernel.h"
#include "smolder/core/cuda/nvrtc.h"
#include "smolder/jit/cuda/byte_code.h"
#include "smolder/jit/cuda/compiler.h"
#include "smolder/jit/cuda/interpreter.h"

namespace smolder::jit::test {
namespace {

// Nearly all kernels there are: the others wait for the compiler.
TEST(CudaInterpreter, HasRoomForKernels) {
  smolder::cuda::DeviceInfo small = emulated_device();
  small.shared_bytes = 99 << 10;  // of compute capability 8.6
  for (const KernelSample& s : op_kernels()) {
    const cuda::ByteCode code = cuda::encode(s.kernel);
    EXPECT_TRUE(cuda::may_interpret(code, emulated_device())) << code.slots << " slots\n" << print(s.kernel);
    EXPECT_TRUE(cuda::may_interpret(code, small)) << code.slots << " slots\n" << print(s.kernel);
  }
}

TEST(CudaInterpreter, SlotsAreTakenAgain) {
  std::string text =
      "kernel {\n  buffers b0:float32 r, b1:float32 w\n  ints 1\n  parallel vector v0 < n0 {\n"
      "    %0 = load b0[v0]\n";
  for (int i = 1; i < 200; ++i) {
    text += "    %" + std::to_string(i) + " = neg float32 %" + std::to_string(i - 1) + "\n";
  }
  EXPECT_LE(cuda::encode(parse_loop(text + "    store b1[v0], %199\n  }\n}\n")).slots, 4);
}

TEST(CudaInterpreter, TooManyNumbersAreRefused) {
  std::string text =
      "kernel {\n  buffers b0:float32 r, b1:float32 w\n  ints 1\n  parallel vector v0 < n0 {\n"
      "    %0 = load b0[v0]\n";
  for (int i = 0; i < 500; ++i) {
    const std::string c = std::to_string(2 * i + 1), r = std::to_string(2 * i + 2);
    text += "    %" + c + " = constant float32 " + std::to_string(i + 1) + ".5\n    %" + r + " = add float32 %" +
            std::to_string(2 * i) + ", %" + c + "\n";
  }
  const cuda::ByteCode code = cuda::encode(parse_loop(text + "    store b1[v0], %1000\n  }\n}\n"));
  EXPECT_FALSE(cuda::may_interpret(code, emulated_device()));
}

// NVRTC takes ten seconds for all primitives, which other tests compile: here `apply` knows none.
TEST(CudaInterpreter, Compiles) {
  SKIP_UNDER_SANITIZER;
  if (!smolder::cuda::has_nvrtc()) GTEST_SKIP() << smolder::cuda::nvrtc_missing();
  std::string text = cuda::interpreter_text();
  if (!std::getenv("SMOLDER_CUDA_ALL")) {
    const size_t apply = text.find("u64 apply("), first = text.find("    case ", apply);
    const size_t last = text.find("    default: return x;", apply);
    ASSERT_LT(first, last);
    text.erase(first, last - first);
  }
  const auto start = std::chrono::steady_clock::now();
  const std::string cubin = cuda::compile_text(text, "sm_90");
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::cout << "the interpreter: " << cubin.size() << " bytes after " << seconds.count() << " s\n";
  EXPECT_LT(cubin.size(), 2u << 20);
}

}  // namespace
}  // namespace smolder::jit::test
