// The interpreter of loop IR on a device, without one. That it gives the bits of generated kernels is tested beside
// them (cuda_kernel_test.cpp).
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "jit/cuda_emulator.h"
#include "jit/kernel_samples.h"
#include "jit/random_kernel.h"
#include "smolder/core/cuda/nvrtc.h"
#include "smolder/jit/cuda/byte_code.h"
#include "smolder/jit/cuda/compiler.h"
#include "smolder/jit/cuda/interpreter.h"
#include "smolder/jit/cuda/shape.h"
#include "smolder/jit/loop/loop_interpret.h"

namespace smolder::jit::test {
namespace {

cuda::InterpreterLaunch launch_of(const Kernel& k, const std::vector<int64_t>& ints, int64_t positions,
                                  const smolder::cuda::DeviceInfo& device) {
  const std::vector<void*> buffers(k.buffers.size());
  return {cuda::encode(k), {buffers.data(), ints.data(), nullptr, nullptr, positions}, device};
}

// Nearly all calls there are: memory of the device is slower.
TEST(CudaInterpreter, HasRoomForKernels) {
  smolder::cuda::DeviceInfo small = emulated_device();
  small.shared_bytes = 99 << 10;  // of compute capability 8.6
  for (const KernelSample& s : op_kernels()) {
    EXPECT_FALSE(launch_of(s.kernel, s.ints, s.positions, emulated_device()).is_large()) << print(s.kernel);
    EXPECT_FALSE(launch_of(s.kernel, s.ints, s.positions, small).is_large()) << print(s.kernel);
  }
}

// A sum over all elements is one group's.
TEST(CudaInterpreter, IsSlowWhereThereAreFewThreads) {
  const Kernel row = parse_loop(
      "kernel {\n  buffers b0:float32 r, b1:float32 w\n  ints 2\n  parallel v0 < n0 {\n    acc a0 = sum float32\n"
      "    vector v1 < n1 {\n      %0 = load b0[v0*n1 + v1]\n      update a0, %0\n    }\n"
      "    %1 = result a0\n    store b1[v0], %1\n  }\n}\n");
  smolder::cuda::DeviceInfo large = emulated_device();
  large.multiprocessors = 132;
  const auto slowness = [&](int64_t rows, int64_t columns) {
    return cuda::interpreter_slowness(row, std::vector<int64_t>{rows, columns}, rows, large);
  };
  EXPECT_EQ(slowness(10000, 1024), 1);
  EXPECT_GT(slowness(1, 1024), 100);
  EXPECT_EQ(slowness(64, 1024), slowness(16, 1024) / 4);
  EXPECT_GT(slowness(0, 1024), 1000);
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

// Words that an argument has no room for lie in memory.
TEST(CudaInterpreter, RunsKernelsOfManyNumbers) {
  SKIP_UNDER_SANITIZER;
  constexpr int kTerms = 500, kElements = 1000;
  std::string text =
      "kernel {\n  buffers b0:float32 r, b1:float32 w\n  ints 1\n  parallel vector v0 < n0 {\n"
      "    %0 = load b0[v0]\n";
  for (int i = 0; i < kTerms; ++i) {
    const std::string c = std::to_string(2 * i + 1), r = std::to_string(2 * i + 2);
    text += "    %" + c + " = constant float32 " + std::to_string(i + 1) + ".5\n    %" + r + " = add float32 %" +
            std::to_string(2 * i) + ", %" + c + "\n";
  }
  const Kernel k = parse_loop(text + "    store b1[v0], %1000\n  }\n}\n");
  EXPECT_TRUE(launch_of(k, {kElements}, kElements, emulated_device()).is_large());
  std::vector<float> x(kElements), got(kElements), want(kElements);
  for (int i = 0; i < kElements; ++i) want[i] = x[i] = static_cast<float>(i) / 7;
  for (int t = 1; t <= kTerms; ++t) {
    for (float& sum : want) sum += static_cast<float>(t) + 0.5f;
  }
  void* const buffers[] = {x.data(), got.data()};
  const int64_t ints[] = {kElements};
  InterpreterEmulator::get().launch(k, buffers, ints, nullptr, nullptr, kElements);
  EXPECT_EQ(got, want);
}

// Values of a row that all of its loops use, more than shared memory has room for beside threads of long rows: each
// row's are the numbers from its own on, whose sum is added to the row, and to the row's sum.
TEST(CudaInterpreter, RunsKernelsOfManyValues) {
  SKIP_UNDER_SANITIZER;
  constexpr int kValues = 100, kRows = 200;
  std::string text =
      "kernel {\n  buffers b0:float32 r, b1:float32 r, b2:float32 w, b3:float32 w\n  ints 2\n  parallel v0 < n0 {\n";
  for (int i = 0; i < kValues; ++i) {
    text += "    %" + std::to_string(i) + " = load b1[" + std::to_string(i) + " + v0]\n";
  }
  text += "    acc a0 = sum float32\n    vector v1 < n1 {\n      %100 = load b0[v0*n1 + v1]\n";
  for (int i = 0; i < kValues; ++i) {
    text += "      %" + std::to_string(101 + i) + " = add float32 %" + std::to_string(100 + i) + ", %" +
            std::to_string(i) + "\n";
  }
  text +=
      "      update a0, %200\n      store b2[v0*n1 + v1], %200\n    }\n    %201 = result a0\n"
      "    store b3[v0], %201\n  }\n}\n";
  const Kernel k = parse_loop(text);
  for (const int64_t n : {int64_t{40}, int64_t{17000}}) {
    const int64_t rows = n > 1000 ? 3 : kRows;
    const std::vector<int64_t> ints{rows, n};
    const cuda::InterpreterLaunch launch = launch_of(k, ints, rows, emulated_device());
    EXPECT_EQ(launch.slots_bytes() > 0, n > 1000);
    EXPECT_EQ(launch.is_large(), n > 1000);
    std::vector<float> x(static_cast<size_t>(rows * n)), numbers(kValues + kRows);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 100);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 7);
    std::vector<float> got(x.size()), want(x.size()), got_sums(kRows), want_sums(kRows);
    void* const device[] = {x.data(), numbers.data(), got.data(), got_sums.data()};
    void* const host[] = {x.data(), numbers.data(), want.data(), want_sums.data()};
    InterpreterEmulator::get().launch(k, device, ints.data(), nullptr, nullptr, rows);
    interpret(k, host, ints.data(), nullptr, nullptr, 0, rows, &cuda::reduce_order());
    EXPECT_EQ(got, want);
    EXPECT_EQ(got_sums, want_sums);
  }
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
