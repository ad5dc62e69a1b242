// The code generator for CUDA, without a device: its text, its launches, and that NVRTC takes what it writes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "jit/kernel_samples.h"
#include "jit/random_kernel.h"
#include "smolder/core/cuda/driver.h"
#include "smolder/core/cuda/nvrtc.h"
#include "smolder/core/error.h"
#include "smolder/core/thread_pool.h"
#include "smolder/jit/cuda/backend.h"
#include "smolder/jit/cuda/compiler.h"
#include "smolder/jit/cuda/launch.h"

namespace smolder::jit::test {
namespace {

constexpr const char* kArchitectures[] = {"sm_80", "sm_90", "sm_100"};

std::string contents(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}
Kernel golden(const std::string& name) { return parse_loop(contents("tests/golden/loop/" + name + ".smir")); }

// SMOLDER_BLESS=1 writes what is expected anew.
TEST(CudaKernel, Text) {
  for (const char* name : {"gelu", "softmax", "column_sum", "embedding", "pad_and_cat"}) {
    const Kernel k = golden(name);
    const Kernel* kernels[] = {&k};
    const std::string text = cuda::program_text(kernels).kernels[0];
    const std::string file = std::string("tests/golden/cuda/") + name + ".cu";
    if (std::getenv("SMOLDER_BLESS")) std::ofstream(file) << text;
    EXPECT_EQ(text, contents(file)) << file;
  }
}

// -- launches

cuda::LaunchPlan planned(const std::string& name, const std::vector<int64_t>& ints, int64_t positions) {
  const Kernel k = golden(name);
  return cuda::plan_launch(cuda::shape_of(k), k.root.kind == StmtKind::kParallelVector, ints, positions, 227 << 10);
}

TEST(CudaLaunch, ElementsInOneGrid) {
  EXPECT_EQ(planned("gelu", {0}, 0).shape.grid[0], 0u);
  EXPECT_EQ(planned("gelu", {1}, 1).shape.grid[0], 1u);
  const auto plan = planned("gelu", {1 << 20}, 1 << 20);
  EXPECT_EQ(plan.shape.block[0] * plan.shape.block[1], 256u);
  EXPECT_GE(int64_t{plan.shape.grid[0]} * 256 * 8, 1 << 20);
}

TEST(CudaLaunch, RowsByLength) {
  const auto warp = planned("softmax", {1000, 1024}, 1000);
  EXPECT_EQ(warp.shape.block[0], 32u);
  EXPECT_EQ(warp.shape.grid[0], 250u);
  const auto block = planned("softmax", {1000, 1025}, 1000);
  EXPECT_EQ(block.shape.block[0], 256u);
  EXPECT_EQ(block.shape.grid[0], 1000u);
  EXPECT_EQ(planned("softmax", {3, 8193}, 3).shape.block[0], 512u);
}

TEST(CudaLaunch, ColumnsAreSharedOut) {
  // 3 chunks of rows by 2 of columns, 1024 columns each.
  const auto plan = planned("column_sum", {3, 2, 2000, 300, 128 * 2000}, 6);
  EXPECT_EQ(int64_t{plan.shape.grid[0]} * plan.shape.block[0] * plan.shape.block[1] * 8, 6 * 1024);
}

TEST(CudaLaunch, TooManyBlocksIsAnError) {
  EXPECT_THROW(planned("gelu", {int64_t{1} << 45}, int64_t{1} << 45), RuntimeError);
}

// -- objects

TEST(CudaObject, BytesThatAreNone) {
  const cuda::Object object{"k0", "kernel", std::string("\0cubin", 6)};
  const std::string bytes = cuda::to_bytes(object);
  const cuda::Object again = cuda::object_from_bytes(bytes);
  EXPECT_EQ(again.entry, object.entry);
  EXPECT_EQ(again.cubin, object.cubin);
  EXPECT_THROW(cuda::object_from_bytes(bytes.substr(0, bytes.size() - 1)), ValueError);
  EXPECT_THROW(cuda::object_from_bytes(bytes + "x"), ValueError);
  EXPECT_THROW(cuda::object_from_bytes("ELF"), ValueError);
}

TEST(CudaDriver, AbsenceIsNoError) {
  if (smolder::cuda::is_available()) GTEST_SKIP() << "there is a device";
  EXPECT_EQ(smolder::cuda::device_count(), 0);
  EXPECT_FALSE(smolder::cuda::unavailable_reason().empty());
  EXPECT_THROW(smolder::cuda::device_info(0), RuntimeError);
  EXPECT_THROW(cuda::cuda_backend(0), RuntimeError);
}

// -- compiling

#define SKIP_WITHOUT_NVRTC \
  if (!smolder::cuda::has_nvrtc()) GTEST_SKIP() << smolder::cuda::nvrtc_missing()

void expect_compiles(const std::vector<const Kernel*>& kernels, const char* arch) {
  constexpr auto kBatch = static_cast<int64_t>(cuda::kProgramKernels);
  const auto n = static_cast<int64_t>(kernels.size());
  parallel_for(n, kBatch, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kBatch) {
      const auto count = static_cast<size_t>(std::min(kBatch, end - i));
      try {
        for (const ObjectCode& object : cuda::compile(std::span(kernels).subspan(i, count), arch)) {
          EXPECT_FALSE(cuda::object_from_bytes(object.bytes).cubin.empty());
        }
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
    }
  });
}

TEST(CudaKernel, RandomKernelsCompile) {
  SKIP_WITHOUT_NVRTC;
  uint64_t seed = 0;
  for (const char* arch : kArchitectures) {
    std::vector<Kernel> kernels;
    for (int i = 0; i < 32; ++i) kernels.push_back(random_kernel(seed++).kernel);
    std::vector<const Kernel*> pointers;
    for (const Kernel& k : kernels) pointers.push_back(&k);
    expect_compiles(pointers, arch);
  }
}

// Each architecture takes its share of the kernels; SMOLDER_CUDA_ALL=1 gives each all of them, and takes minutes.
TEST(CudaKernel, KernelsOfOpsCompile) {
  SKIP_WITHOUT_NVRTC;
  const bool all = std::getenv("SMOLDER_CUDA_ALL") != nullptr;
  ASSERT_GT(op_kernels().size(), 500u);
  constexpr size_t kEvery = 4;  // one in so many of those of an architecture
  for (size_t a = 0; a < std::size(kArchitectures); ++a) {
    std::vector<const Kernel*> kernels;
    for (size_t i = 0; i < op_kernels().size(); ++i) {
      if (all || i % (kEvery * std::size(kArchitectures)) == a) kernels.push_back(&op_kernels()[i].kernel);
    }
    expect_compiles(kernels, kArchitectures[a]);
  }
}

}  // namespace
}  // namespace smolder::jit::test
