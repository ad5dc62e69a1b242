// The code generator for CUDA, without a device: its text, its launches, and that NVRTC takes what it writes.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <regex>
#include <string>
#include <string_view>

#include "jit/cuda_emulator.h"
#include "jit/error_slots.h"
#include "jit/golden_text.h"
#include "jit/kernel_samples.h"
#include "jit/kernel_test_util.h"
#include "jit/plan_test_util.h"
#include "jit/random_kernel.h"
#include "smolder/core/cuda/driver.h"
#include "smolder/core/cuda/nvrtc.h"
#include "smolder/core/error.h"
#include "smolder/core/thread_pool.h"
#include "smolder/ir/graph.h"
#include "smolder/jit/cuda/backend.h"
#include "smolder/jit/cuda/compiler.h"
#include "smolder/jit/cuda/launch.h"
#include "smolder/jit/cuda/numbers.h"
#include "smolder/jit/cuda/row_size.h"
#include "smolder/jit/cuda/schedule.h"
#include "smolder/jit/loop/kernel_bytes.h"
#include "smolder/jit/loop/loop_interpret.h"

namespace smolder::jit::test {
namespace {

constexpr const char* kArchitectures[] = {"sm_80", "sm_90", "sm_100"};

TEST(CudaKernel, Text) {
  for (const char* name : {"gelu", "softmax", "softmax_kept", "column_sum", "embedding", "pad_and_cat",
                           "layer_norm_backward", "split_backward", "transpose", "triples", "pair_sums"}) {
    const Kernel k = golden(name);
    const Kernel* kernels[] = {&k};
    expect_golden(std::string("tests/golden/cuda/") + name + ".cu", cuda::program_text(kernels).kernels[0]);
  }
}

TEST(CudaKernel, GuardedText) {
  const Kernel one = golden("gelu");
  Kernel guarded = one;
  guarded.guarded = true;
  EXPECT_TRUE(parse_loop(print(guarded)).guarded);
  EXPECT_TRUE(from_bytes(to_bytes(guarded)).guarded);
  EXPECT_FALSE(from_bytes(to_bytes(one)).guarded);
  const Kernel* kernels[] = {&guarded};
  expect_golden("tests/golden/cuda/gelu_guarded.cu", cuda::program_text(kernels).kernels[0]);
}

// A guarded kernel does nothing once a step has failed; a check says so, with the index and its bound, and only the
// first.
TEST(CudaKernel, GuardsAndReports) {
  SKIP_UNDER_SANITIZER;
  Kernel gelu = golden("gelu");
  gelu.guarded = true;
  const Kernel* kernels[] = {&gelu};
  const CudaEmulator emulator(kernels, SMOLDER_HOST_CXX);
  const std::vector<int64_t> ints{8};
  for (const uint32_t failed : {0u, 1u}) {
    Array x(gelu.buffers[0].dtype, 8), y(gelu.buffers[1].dtype, 8);
    for (int64_t i = 0; i < 8; ++i) x.set_bits(i, 0), y.set_bits(i, 7);
    void* const buffers[] = {x.data(), y.data()};
    uint32_t word = failed;
    emulator.launch(0, buffers, ints.data(), nullptr, &word, 8);
    EXPECT_EQ(y.bits(0), failed ? 7u : 0u);
  }

  const Kernel embedding = golden("embedding");
  const Kernel* others[] = {&embedding};
  const CudaEmulator looking(others, SMOLDER_HOST_CXX);
  Array index(DType::kInt64, 2), table(embedding.buffers[1].dtype, 3 * 8), rows(embedding.buffers[2].dtype, 2 * 8);
  index.set_bits(0, 1), index.set_bits(1, 9);
  void* const buffers[] = {index.data(), table.data(), rows.data()};
  const std::vector<int64_t> sizes{2, 3, 8};
  ErrorSlots slots(1);
  looking.launch(0, buffers, sizes.data(), nullptr, slots.data(), 2);
  EXPECT_EQ(slots.found(), std::vector<uint32_t>{1});
  EXPECT_EQ(slots.words()[0], 9u);
  EXPECT_EQ(slots.words()[1], 4u);  // the bound and one
  slots.words()[0] = slots.words()[1] = 0;
  looking.launch(0, buffers, sizes.data(), nullptr, slots.data(), 2);
  EXPECT_EQ(slots.found(), std::vector<uint32_t>{0}) << "a step has failed already";
}

void expect_same(const std::vector<KernelSample>& samples, const std::vector<std::vector<int64_t>>& index_limits);

TEST(CudaKernel, EveryKernelHasText) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Kernel k = random_kernel(seed).kernel;
    const Kernel* kernels[] = {&k};
    const cuda::ProgramText program = cuda::program_text(kernels);
    EXPECT_NE(program.text.find(" " + program.entries[0] + "("), std::string::npos);
  }
  for (const KernelSample& s : op_kernels()) {
    const Kernel* kernels[] = {&s.kernel};
    EXPECT_NO_THROW(cuda::program_text(kernels));
  }
}

TEST(CudaKernel, FunctionsAreNamedAfterTheirOps) {
  Kernel first = random_kernel(1).kernel, second = random_kernel(2).kernel;
  first.name = "3d::my op_add";
  second.name = "";
  const Kernel* kernels[] = {&first, &second};
  EXPECT_EQ(cuda::program_text(kernels).entries, (std::vector<std::string>{"_3d__my_op_add_k0", "k1"}));
}

// -- launches

cuda::LaunchPlan planned(const std::string& name, const std::vector<int64_t>& ints, int64_t positions) {
  return cuda::plan_launch(cuda::Schedule(golden(name)), ints, positions, test::emulated_device());
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
  EXPECT_EQ(warp.shape.block[1], 2u);
  EXPECT_EQ(warp.shape.grid[0], 500u);
  const auto block = planned("softmax", {1000, 8192}, 1000);
  EXPECT_EQ(block.shape.block[0], 256u);
  EXPECT_EQ(block.shape.grid[0], 1000u);
  EXPECT_EQ(planned("softmax", {1000, 1028}, 1000).shape.block[0], 64u);
  EXPECT_EQ(planned("softmax", {3, 50304}, 3).shape.block[0], 512u);
  // Short rows share a warp: a thread has two chunks of four.
  EXPECT_EQ(planned("softmax", {1000, 64}, 1000).shape.block[0], 8u);
  EXPECT_EQ(planned("softmax", {1000, 64}, 1000).shape.block[1], 16u);
  EXPECT_EQ(planned("softmax", {1000, 3}, 1000).shape.block[0], 2u);
}

TEST(CudaLaunch, RowsAreHeld) {
  const auto held = [](const std::string& name) {
    const cuda::Schedule schedule(golden(name));
    std::vector<int> buffers;
    for (const auto& row : schedule.shape.held) buffers.push_back(row.buffer);
    return buffers;
  };
  EXPECT_EQ(held("softmax"), (std::vector<int>{0}));
  EXPECT_EQ(held("softmax_kept"), (std::vector<int>{1, 0}));
  const auto kept = planned("softmax_kept", {8, 1024}, 8);
  EXPECT_EQ(kept.scratch[0].bytes, 4096);
  EXPECT_EQ(kept.shape.block[0], 16u);
  EXPECT_EQ(kept.shape.block[1], 2u);
  EXPECT_EQ(kept.shape.shared_bytes, 2u * 4096);
  EXPECT_TRUE(planned("softmax_kept", {8, 60000}, 8).scratch_in_memory);
}

TEST(CudaLaunch, RowsAsExpected) {
  const auto row = [](const std::string& call, const std::string& dtype, int64_t n) {
    const std::string columns = std::to_string(n), all = " : " + dtype + "[s0, s1]\n";
    const std::string text = "symbols s0=16, s1=" + columns + "\n%0 = leaf(number=0, offset=0, strides=[s1, 1])" + all +
                             "%1 = " + call + " : " + dtype + (call[0] == 's' ? "[s0, s1]" : "[s0]") + "\nreturn %1\n";
    const std::vector<KernelSample> all_kernels =
        kernels_of(ir::parse(text), std::vector<int64_t>{16, n}, {}, DeviceType::kCUDA);
    return cuda::row_size(all_kernels.at(0).kernel, all_kernels.at(0).ints);
  };
  const std::string softmax = "softmax(%0, dim=1, dtype=none)", sum = "logsumexp(%0, dim=[1], keepdim=false)";
  EXPECT_EQ(row(softmax, "float32", 1024), (RowSize{4, 1, 32, 8, true}));
  EXPECT_EQ(row(softmax, "bfloat16", 1024), (RowSize{8, 2, 16, 8, true}));
  EXPECT_EQ(row(softmax, "bfloat16", 8192), (RowSize{8, 2, 128, 8, true}));
  EXPECT_EQ(row(softmax, "bfloat16", 768), (RowSize{8, 2, 16, 6, true}));
  EXPECT_EQ(row(softmax, "bfloat16", 1000), (RowSize{8, 2, 16, 8, false}));
  EXPECT_EQ(row(softmax, "bfloat16", 1004), (RowSize{4, 1, 32, 8, false}));
  // No unit: elements one by one, whatever they are.
  EXPECT_EQ(row(softmax, "bfloat16", 10), (RowSize{.vector = 1}));
  // Long rows wait in shared memory, of two blocks where there is room, or of one whose threads keep exponentials.
  EXPECT_EQ(row(softmax, "bfloat16", 50304), (RowSize{8, 1, 512, 13, false, 1}));
  EXPECT_EQ(row(softmax, "bfloat16", 60000), (RowSize{.vector = 8, .staged = 1}));
  const auto range = [&](int64_t n) { return cuda::row_range(n, row(softmax, "bfloat16", n)); };
  EXPECT_EQ(range(16392), (cuda::RowRange{16384, 20480}));
  EXPECT_EQ(range(20480), (cuda::RowRange{20479, 20480}));
  EXPECT_EQ(row(sum, "bfloat16", 50304), (RowSize{.vector = 8, .staged = 2}));
  EXPECT_EQ(row(sum, "bfloat16", 50257), (RowSize{.vector = 8, .staged = 2, .rest = true}));
  EXPECT_EQ(row(softmax, "float32", 50304), (RowSize{.vector = 8, .staged = 1}));
  EXPECT_EQ(row(softmax, "float32", 100000), (RowSize{.vector = 8}));
  EXPECT_EQ(row(softmax, "float32", 50308), (RowSize{.vector = 8, .staged = 1, .rest = true}));
}

TEST(CudaLaunch, BlocksWalkOverLongRows) {
  Kernel k = golden("layer_norm");
  const std::vector<int64_t> ints{1000, 20000};
  k.row = cuda::row_size(k, ints);
  EXPECT_EQ(k.row, (RowSize{.vector = 8, .staged = 2}));
  EXPECT_EQ(cuda::plan_launch(cuda::Schedule(k), ints, 1000, emulated_device()).shape.grid[0], 4u);
  EXPECT_EQ(cuda::plan_launch(cuda::Schedule(k), ints, 3, emulated_device()).shape.grid[0], 3u);
  // There is no room for longer ones.
  const std::vector<int64_t> longer{1000, 60000};
  EXPECT_EQ(cuda::plan_launch(cuda::Schedule(k), longer, 1000, emulated_device()).shape.grid[0], 1000u);
  // Exponentials take longer than memory does, unless threads keep them.
  Kernel costly = golden("softmax");
  const std::vector<int64_t> most{1000, 55000};
  costly.row = cuda::row_size(costly, most);
  EXPECT_EQ(costly.row, (RowSize{.vector = 8, .staged = 1}));
  EXPECT_EQ(cuda::plan_launch(cuda::Schedule(costly), most, 1000, emulated_device()).shape.grid[0], 1000u);
  costly.row = cuda::row_size(costly, ints);
  EXPECT_EQ(costly.row, (RowSize{8, 1, 512, 5, false, 1}));
  EXPECT_EQ(cuda::plan_launch(cuda::Schedule(costly), ints, 1000, emulated_device()).shape.grid[0], 2u);
}

TEST(CudaLaunch, ColumnsAreSharedOut) {
  // 3 chunks of rows by 2 of columns, 1024 columns each: few, so blocks are narrow.
  const auto plan = planned("column_sum", {3, 2, 2000, 300, 128 * 2000}, 6);
  EXPECT_EQ(int64_t{plan.shape.grid[0]} * plan.shape.block[0] * 8, 6 * 1024);
  EXPECT_EQ(plan.shape.block[0], 8u);
  EXPECT_EQ(plan.groups, 16);
  EXPECT_EQ(plan.segment, 8);
  EXPECT_EQ(plan.shape.shared_bytes, 16u * 64 * 4);
  // 100 chunks of rows are blocks enough for wide ones.
  EXPECT_EQ(planned("column_sum", {100, 2, 2000, 12800, 128 * 2000}, 200).shape.block[0], 16u);
  // So many threads have all iterations to themselves.
  const auto many = planned("column_sum", {2048, 1, 1024, 128 * 2048, 128 * 1024}, 2048);
  EXPECT_EQ(many.groups, 1);
  EXPECT_EQ(many.shape.shared_bytes, 256u * 8 * 4);
  EXPECT_EQ(int64_t{many.shape.grid[0]} * many.shape.block[0] * many.shape.block[1] * 8, 2048 * 1024);
  // Where there are fewer columns than a chunk would have, no threads wait for others.
  const auto narrow = planned("column_sum", {32768, 1, 64, 128 * 32768, 128 * 64}, 32768);
  EXPECT_EQ(narrow.groups, 1);
  EXPECT_EQ(int64_t{narrow.shape.grid[0]} * narrow.shape.block[0] * narrow.shape.block[1] * 8, 32768 * 64);
  EXPECT_EQ(planned("column_sum", {128, 1, 64, 128 * 128, 128 * 64}, 128).shape.block[0], 8u);
}

// Positions of each kernel: chunks of 16 rows up to 2048, and their partials at once where they are few.
TEST(CudaLaunch, LongColumnsInChunks) {
  const auto positions = [](int64_t rows, DeviceType device) {
    const std::string text = "symbols s0=" + std::to_string(rows) +
                             ", s1=1000\n%0 = leaf(number=0, offset=0, strides=[s1, 1]) : float32[s0, s1]\n"
                             "%1 = sum(%0, dim=[0], keepdim=false, dtype=none) : float32[s1]\nreturn %1\n";
    const std::vector<int64_t> symbols{rows, 1000};
    std::vector<int64_t> all;
    for (const KernelSample& s : kernels_of(ir::parse(text), symbols, {}, device)) all.push_back(s.positions);
    return all;
  };
  using Positions = std::vector<int64_t>;
  EXPECT_EQ(positions(128, DeviceType::kCUDA), (Positions{1}));
  EXPECT_EQ(positions(300, DeviceType::kCUDA), (Positions{19, 1}));
  EXPECT_EQ(positions(2048, DeviceType::kCUDA), (Positions{128, 1}));
  EXPECT_EQ(positions(2049, DeviceType::kCUDA), (Positions{65, 1}));
  EXPECT_EQ(positions(65536, DeviceType::kCUDA), (Positions{128, 1}));
  EXPECT_EQ(positions(300000, DeviceType::kCUDA), (Positions{147, 1}));
  EXPECT_EQ(positions(2000000, DeviceType::kCUDA), (Positions{977, 62, 1}));
  EXPECT_EQ(positions(2048, DeviceType::kCPU), (Positions{16, 1}));
}

TEST(CudaLaunch, TransposesInTiles) {
  SKIP_UNDER_SANITIZER;
  std::vector<KernelSample> samples;
  for (const char* dtype : {"float32", "bfloat16", "bool", "int64", "int8", "int16"}) {
    std::string text =
        "kernel {\n  buffers b0:$T r, b1:$T w\n  ints 2\n  parallel v0 < n0 {\n    vector v1 < n1 {\n"
        "      %0 = load b0[v0 + v1*n0]\n      store b1[v0*n1 + v1], %0\n    }\n  }\n}\n";
    for (size_t at = 0; (at = text.find("$T", at)) != std::string::npos;) text.replace(at, 2, dtype);
    const Kernel k = parse_loop(text);
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{1000, 600}, {33, 7}, {1, 65}, {64, 1}}) {
      samples.push_back({k, {rows * columns, rows * columns}, {}, {rows, columns}, {}, rows});
    }
  }
  const auto plan =
      cuda::plan_launch(cuda::Schedule(samples[0].kernel), samples[0].ints, 1000, test::emulated_device());
  EXPECT_EQ(plan.shape.block[0], 8u);
  EXPECT_EQ(plan.shape.block[1], 32u);
  EXPECT_EQ(plan.shape.grid[0], 32u * 19);
  // Batches of matrices, added to what goes the other way.
  samples.push_back(
      {parse_loop("kernel {\n  buffers b0:bfloat16 r, b1:bfloat16 r, b2:bfloat16 w\n  ints 4\n  parallel "
                  "v0 < n0, v1 < n1 {\n    vector v2 < n2 {\n      %0 = load b0[v0*n3 + v1 + v2*n1]\n      "
                  "%1 = load b1[v0*n3 + v1*n2 + v2]\n      %2 = add bfloat16 %0, %1\n      store b2[v0*n3 "
                  "+ v1*n2 + v2], %2\n    }\n  }\n}\n"),
       {3 * 50 * 72, 3 * 50 * 72, 3 * 50 * 72},
       {},
       {3, 50, 72, 50 * 72},
       {},
       150});
  // As many as a block has room for, which is two of 16896 bytes here; the others are loaded across.
  const auto across = [](const char* b) { return std::string(" = load ") + b + "[v0 + v1*n0]\n"; };
  samples.push_back(
      {parse_loop("kernel {\n  buffers b0:float64 r, b1:float64 r, b2:float64 r, b3:bool r, b4:float64 w\n"
                  "  ints 2\n  parallel v0 < n0 {\n    vector v1 < n1 {\n      %0" +
                  across("b0") + "      %1" + across("b1") + "      %2" + across("b2") +
                  "      %3 = load b3[v0*n1 + v1]\n      %4 = add float64 %0, %1\n"
                  "      %5 = where float64 %3, %4, %2\n      store b4[v0*n1 + v1], %5\n    }\n  }\n}\n"),
       std::vector<int64_t>(5, 70 * 50),
       {},
       {70, 50},
       {},
       70});
  const Kernel two = cuda::Schedule(samples.back().kernel).kernel;
  EXPECT_EQ(std::ranges::count(two.buffers, MemorySpace::kShared, &BufferArg::space), 2);
  expect_same(samples, {});
}

TEST(CudaLaunch, SegmentsSideBySide) {
  const auto plan = planned("layer_norm_backward", {3, 1024, 300, 128 * 1024}, 3);
  EXPECT_EQ(plan.shape.grid[0], 3u);
  EXPECT_EQ(plan.shape.block[0], 32u);
  EXPECT_EQ(plan.shape.block[1], 16u);
  EXPECT_EQ(planned("layer_norm_backward", {3, 100, 300, 128 * 100}, 3).shape.block[1], 16u);
  EXPECT_EQ(planned("layer_norm_backward", {3, 2000, 300, 128 * 2000}, 3).shape.block[1], 8u);
  EXPECT_EQ(planned("layer_norm_backward", {3, 8192, 300, 128 * 8192}, 3).shape.block[1], 2u);
  EXPECT_EQ(planned("layer_norm_backward", {3, 50304, 300, 128 * 50304}, 3).shape.block[1], 1u);
}

// Sums of a single chunk of rows are as those of many: they are no row that the kernel keeps to itself.
TEST(CudaLaunch, OneChunkOfColumnsHasGroups) {
  const Kernel k = parse_loop(
      "kernel {\n  buffers b0:float32 rw, b1:float32 r, b2:float32 w\n  ints 2\n  parallel v0 < 1 {\n"
      "    %0 = constant float32 0.0\n    vector v1 < n0 {\n      store b0[v1], %0\n    }\n    loop v2 < n1 {\n"
      "      acc a0 = sum float32\n      vector v3 < n0 {\n        %1 = load b1[v2*n0 + v3]\n        update a0, %1\n"
      "      }\n      %2 = result a0\n      vector v4 < n0 {\n        %3 = load b1[v2*n0 + v4]\n"
      "        %4 = sub float32 %3, %2\n        %5 = load b0[v4]\n        %6 = add float32 %5, %4\n"
      "        store b0[v4], %6\n        store b2[v2*n0 + v4], %4\n      }\n    }\n  }\n}\n");
  const cuda::Schedule schedule(k);
  EXPECT_EQ(cuda::shared_row(schedule.kernel, 0), nullptr);
  EXPECT_EQ(schedule.shape.sums.size(), 1u);
  EXPECT_EQ(cuda::plan_launch(schedule, std::vector<int64_t>{10, 32}, 1, test::emulated_device()).shape.block[1], 8u);
  expect_same({{k, {10, 320, 320}, {}, {10, 32}, {}, 1}}, {});
}

TEST(CudaLaunch, TooManyBlocksIsAnError) {
  EXPECT_THROW(planned("gelu", {int64_t{1} << 45}, int64_t{1} << 45), RuntimeError);
}

// -- numbers that the host computes

TEST(CudaNumbers, WhatFollowsFromScalarsAlone) {
  const Kernel k = parse_loop(R"(kernel {
  buffers b0:float32 r, b1:float32 w
  ints 1
  scalars float float
  parallel vector v0 < n0 {
    %0 = scalar float64 s0
    %1 = scalar float64 s1
    %2 = pow float64 %0, %1
    %3 = cast float32 %2
    %4 = scalar float32 s0
    %5 = exp float32 %4
    %6 = mul float32 %4, %5
    %7 = load b0[v0]
    %8 = mul float32 %7, %3
    %9 = add float32 %8, %6
    store b1[v0], %9
  }
}
)");
  const cuda::Numbers numbers(k);
  // exp has bits of the device's own.
  ASSERT_EQ(numbers.results().size(), 1u);
  EXPECT_EQ(numbers.results()[0]->result, 3);
  std::vector<uint64_t> words{std::bit_cast<uint64_t>(3.0), std::bit_cast<uint64_t>(4.0), 0};
  numbers.compute(words.data());
  EXPECT_EQ(std::bit_cast<float>(static_cast<uint32_t>(words[2])), 81.0f);
  const Kernel* const kernels[] = {&k};
  const std::string text = cuda::program_text(kernels).kernels[0];
  EXPECT_EQ(text.find("pow"), std::string::npos);
  EXPECT_NE(text.find("const f32 x3 = __uint_as_float(static_cast<u32>(a.scalars[2]));"), std::string::npos);
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

// -- what the text means, without a device

constexpr int64_t kFewElements = 20000;  // whose races it takes little time to look for

/// Runs each kernel emulated, as its own code, as the code that is compiled quickly and by the device's interpreter, in
/// place where it may be, and interpreted on the host, as it is and as it is scheduled, and expects equal bits.
void expect_same(const std::vector<KernelSample>& samples, const std::vector<std::vector<int64_t>>& index_limits) {
  std::vector<const Kernel*> kernels;
  for (const KernelSample& s : samples) kernels.push_back(&s.kernel);
  const CudaEmulator emulator(kernels, SMOLDER_HOST_CXX), quick(kernels, SMOLDER_HOST_CXX, cuda::Effort::kQuick);
  std::mt19937_64 random(5);
  for (size_t i = 0; i < samples.size(); ++i) {
    const KernelSample& s = samples[i];
    SCOPED_TRACE(std::to_string(i) + "\n" + print(s.kernel));
    std::vector<Array> got, want;
    std::vector<void*> on_device, on_host;
    for (size_t b = 0; b < s.sizes.size(); ++b) {
      Array a(s.kernel.buffers[b].dtype, s.sizes[b]);
      const int64_t limit = index_limits.empty() ? -1 : index_limits[i][b];
      if (limit < 0) a.fill_special(random);
      for (int64_t k = 0; limit >= 0 && k < a.size(); ++k) {
        a.set_bits(k, random() % static_cast<uint64_t>(limit + 3) - 1);
      }
      want.push_back(a.clone());
      got.push_back(std::move(a));
      on_device.push_back(!s.scratch.empty() && s.scratch[b] ? nullptr : got[b].data());
      on_host.push_back(want[b].data());
    }
    for (const auto& [read, written] : s.in_place) on_device[written] = on_device[read];
    Copies on_interpreter(s, want, on_device), by_quick(s, want, on_device);
    ErrorSlots interpreter_errors(s.kernel.num_errors);
    InterpreterEmulator::get().launch(s.kernel, on_interpreter.places.data(), s.ints.data(), s.scalars.data(),
                                      interpreter_errors.data(), s.positions);
    ErrorSlots got_errors(s.kernel.num_errors), quick_errors(s.kernel.num_errors);
    quick.launch(i, by_quick.places.data(), s.ints.data(), s.scalars.data(), quick_errors.data(), s.positions);
    std::vector<uint32_t> want_errors(static_cast<size_t>(s.kernel.num_errors));
    emulator.launch(i, on_device.data(), s.ints.data(), s.scalars.data(), got_errors.data(), s.positions);
    const auto host = [&](const Kernel& k, void* const* buffers) {
      interpret(k, buffers, s.ints.data(), s.scalars.data(), want_errors.data(), 0, s.positions, &cuda::reduce_order());
    };
    if (std::accumulate(s.sizes.begin(), s.sizes.end(), int64_t{0}) < kFewElements) {
      Copies scheduled(s, want, on_device);
      EXPECT_NO_THROW(host(cuda::Schedule(s.kernel).kernel, scheduled.places.data()));
      host(s.kernel, on_host.data());
      scheduled.part(s, want);
      for (size_t b = 0; b < want.size(); ++b) {
        if (on_device[b]) EXPECT_TRUE(same(scheduled.arrays[b], want[b])) << "b" << b << " of the schedule";
      }
    } else {
      host(s.kernel, on_host.data());
    }
    for (const auto& [read, written] : s.in_place) {
      std::memcpy(got[written].data(), got[read].data(), got[read].bytes());
      want[read] = got[read].clone();  // it was overwritten
    }
    on_interpreter.part(s, want);
    by_quick.part(s, want);
    for (size_t b = 0; b < got.size(); ++b) {
      if (!on_device[b]) continue;
      EXPECT_TRUE(same(got[b], want[b])) << "b" << b;
      EXPECT_TRUE(same(on_interpreter.arrays[b], want[b])) << "b" << b << " of the interpreter";
      EXPECT_TRUE(same(by_quick.arrays[b], want[b])) << "b" << b << " of the quick code";
    }
    EXPECT_EQ(interpreter_errors.found(), want_errors);
    EXPECT_EQ(quick_errors.found(), want_errors);
    EXPECT_EQ(got_errors.found(), want_errors);
  }
}

TEST(CudaEmulated, GoldenKernels) {
  SKIP_UNDER_SANITIZER;
  std::vector<KernelSample> samples;
  const auto add = [&](const char* name, std::vector<int64_t> sizes, std::vector<int64_t> ints,
                       std::vector<uint64_t> scalars, int64_t positions) {
    samples.push_back({golden(name), std::move(sizes), {}, std::move(ints), std::move(scalars), positions});
  };
  for (const int64_t n : {0, 1, 7, 1029}) add("gelu", {n, n}, {n}, {}, n);
  for (const int64_t n : {1, 24, 31, 256, 1024, 1025, 9000, 16391, 20000, 20004}) {
    add("softmax", {3 * n, 3 * n}, {3, n}, {}, 3);
    add("softmax_kept", {3 * n, n, 3 * n}, {3, n}, {}, 3);
    samples.back().scratch = {false, true, false};
    add("layer_norm", {5 * n, n, n, 5 * n}, {5, n}, {std::bit_cast<uint64_t>(1e-5), static_cast<uint64_t>(n)}, 5);
    for (size_t i = samples.size() - 3, end = samples.size(); i < end; ++i) {
      KernelSample as_expected = samples[i];
      as_expected.kernel.row = cuda::row_size(as_expected.kernel, as_expected.ints);
      samples.push_back(std::move(as_expected));
    }
  }
  samples.push_back({golden("softmax"), {60000, 60000}, {}, {1, 60000}, {}, 1});
  add("softmax_kept", {20000, 20000, 20000}, {1, 20000}, {}, 1);  // beyond registers
  samples.back().scratch = {false, true, false};
  // Odd rows that begin where chunks may be loaded. With exponentials blocks have a position each, else they walk.
  const std::string padded =
      "kernel {\n  buffers b0:bfloat16 r, b1:bfloat16 w\n  ints 3\n  parallel v0 < n0 {\n    acc a0 = max float32\n"
      "    vector v1 < n1 {\n      %0 = load b0[v0*n2 + v1]\n      %1 = cast float32 %0\n      update a0, %1\n    }\n"
      "    %2 = result a0\n    acc a1 = sum float32\n    vector v2 < n1 {\n      %3 = load b0[v0*n2 + v2]\n"
      "      %4 = cast float32 %3\n      %5 = sub float32 %4, %2\n      %6 = exp float32 %5\n      update a1, %6\n    "
      "}\n"
      "    %7 = result a1\n    vector v3 < n1 {\n      %8 = load b0[v0*n2 + v3]\n      %9 = cast float32 %8\n"
      "      %10 = sub float32 %9, %7\n      %11 = cast bfloat16 %10\n      store b1[v0*n2 + v3], %11\n    }\n  }\n}\n";
  const std::string_view exponential = "exp float32 %5", square = "mul float32 %5, %5";
  for (const int64_t n : {16385, 16390, 20007, 20500, 50257, 130001}) {
    for (const bool walks : {false, true}) {
      std::string text = padded;
      if (walks) text.replace(text.find(exponential), exponential.size(), square);
      const int64_t positions = walks ? 7 : 3, distance = (n + 7) / 8 * 8;
      KernelSample s{parse_loop(text), {positions * distance, positions * distance}, {}, {positions, n, distance}, {},
                     positions};
      s.kernel.row = cuda::row_size(s.kernel, s.ints);
      const bool fits = n < 120000;
      EXPECT_EQ(s.kernel.row, (RowSize{.vector = 8, .staged = fits ? 2 : 0, .rest = true}));
      const auto plan = cuda::plan_launch(cuda::Schedule(s.kernel), s.ints, positions, test::emulated_device());
      EXPECT_EQ(plan.shape.grid[0], walks && fits ? 4U : positions);
      samples.push_back(std::move(s));
    }
  }
  // A number of each row; of the long rows a thread takes several chunks.
  for (const auto& [rows, n] : {std::pair<int64_t, int64_t>{3, 2200008}, {5, 1000}, {4, 77}}) {
    samples.push_back({parse_loop("kernel {\n  buffers b0:float32 r, b1:bfloat16 rw\n  ints 2\n  parallel v0 < n0 {\n"
                                  "    %0 = load b0[v0]\n    %1 = mul float32 %0, %0\n    vector v1 < n1 {\n"
                                  "      %2 = load b1[v0*n1 + v1]\n      %3 = cast float32 %2\n"
                                  "      %4 = add float32 %3, %1\n      %5 = cast bfloat16 %4\n"
                                  "      store b1[v0*n1 + v1], %5\n    }\n  }\n}\n"),
                       {rows, rows * n},
                       {},
                       {rows, n},
                       {},
                       rows});
  }
  for (const int64_t columns : {5, 1000, 2100}) {
    const int64_t rows = 300, row_chunks = 3, column_chunks = (columns + 1023) / 1024;
    add("column_sum", {row_chunks * columns, rows * columns}, {row_chunks, column_chunks, columns, rows, 128 * columns},
        {}, row_chunks * column_chunks);
  }
  add("column_sum", {0, 0}, {0, 1, 16, 0, 128 * 16}, {}, 0);  // no rows, and no columns
  add("column_sum", {0, 0}, {3, 0, 0, 300, 0}, {}, 0);
  // A block has several of many positions with few turns, and at last a thread has all turns.
  for (const int64_t positions : {7, 300, 26000}) {
    for (const int64_t turns : {1, 3, 11}) {
      for (const auto& [columns, added] : {std::pair(64, "v0*n3 + v2*n1 + v3"), {5, "v0*n3 + v2*n1 + v3"}, {5, "v2"}}) {
        if (positions > 1000 && (turns != 3 || columns != 64)) continue;
        const Kernel k = parse_loop(
            "kernel {\n  buffers b0:float32 rw, b1:bfloat16 r\n  ints 4\n  parallel v0 < n0 {\n"
            "    %0 = constant float32 0.5\n    vector v1 < n1 {\n      store b0[v0*n1 + v1], %0\n    }\n"
            "    loop v2 < n2 {\n      vector v3 < n1 {\n        %1 = load b1[" +
            std::string(added) +
            "]\n"
            "        %2 = cast float32 %1\n        %3 = load b0[v0*n1 + v3]\n        %4 = add float32 %3, %2\n"
            "        store b0[v0*n1 + v3], %4\n      }\n    }\n  }\n}\n");
        samples.push_back({k,
                           {positions * columns, positions * turns * columns},
                           {},
                           {positions, columns, turns, turns * columns},
                           {},
                           positions});
      }
    }
  }
  for (const int64_t rows : {5, 300}) {
    for (const int64_t n : {3, 100, 1024, 1100, 9000}) {
      if (n > 2000 && rows > 100) continue;
      const int64_t chunks = (rows + 127) / 128, all = rows * n;
      add("layer_norm_backward", {chunks * n, chunks * n, rows, rows, all, n, all, all}, {chunks, n, rows, 128 * n}, {},
          chunks);
    }
  }
  add("pad_and_cat", {18, 24, 200}, {5, 40, -8, 6, 3, 4}, {}, 5);
  // Rows of pairs that begin where a chunk may, and that do not; the last chunk is short.
  for (const auto& [n, row] : {std::pair<int64_t, int64_t>{64, 128}, {66, 136}, {65, 130}, {64, 129}}) {
    add("pairs", {5 * row, 5 * row}, {5, n, row}, {}, 5);
  }
  // Rows of three, of which threads take four.
  for (const int64_t n : {1, 4, 5, 1003}) add("triples", {3 * n, 3 * n}, {n}, {}, n);
  // Sums over pairs of points: by groups that share segments, and where there are many by threads for themselves.
  for (const int64_t points : {1, 35, 1024}) {
    const int64_t chunks = (points + 15) / 16;
    add("pair_sums", {points * chunks * 3, points * 3}, {points, chunks, chunks * 3, 3, 2, 16, 48},
        {std::bit_cast<uint64_t>(0.01), std::bit_cast<uint64_t>(-1.5)}, points * chunks);
  }
  // Joined rows of two: as wide as the join's half, and as heads. Chunks are regular in the first sizes alone.
  for (const auto& [width, head] : {std::pair<int64_t, int64_t>{16, 8}, {12, 4}, {16, 4}, {5, 5}}) {
    const int64_t rows = 300, all = 2 * width;
    add("split_backward", {3 * all, rows * width, rows * width, rows * all},
        {3, all, head, 128, rows, 128 * width, width, -width, rows * head, 128 * all}, {}, 3);
  }
  add("dropout", {1, 1000, 1000, 1000}, {1000}, {3, std::bit_cast<uint64_t>(2147483648.0)}, 1000);
  // One position, so that a row which is the kernel's own looks like memory of the caller's.
  for (const int64_t n : {1, 3, 700}) {
    KernelSample one_row{golden("one_row"), std::vector<int64_t>(7, n), {false, false, true, true, true, false, false}};
    one_row.ints = {n};
    one_row.scalars = {std::bit_cast<uint64_t>(1.5)};
    samples.push_back(std::move(one_row));
  }
  expect_same(samples, {});
}

// A short way that several lanes take: numbers of all sizes, with others beside them that may not.
TEST(CudaEmulated, QuotientsAndExponentialsOfRows) {
  SKIP_UNDER_SANITIZER;
  std::vector<KernelSample> samples;
  const int64_t rows = 2000;
  for (const int64_t n : {4, 5, 64}) {
    const Kernel k = parse_loop(
        "kernel {\n  buffers b0:float32 r, b1:float32 r, b2:float32 w, b3:float32 w, b4:float32 w\n  ints 2\n"
        "  parallel v0 < n0 {\n    %0 = load b1[v0]\n    acc a0 = max float32\n    vector v1 < n1 {\n"
        "      %1 = load b0[v0*n1 + v1]\n      %2 = div float32 %1, %0\n      %3 = exp float32 %1\n"
        "      update a0, %2\n      store b2[v0*n1 + v1], %2\n      store b3[v0*n1 + v1], %3\n    }\n"
        "    %4 = result a0\n    store b4[v0], %4\n  }\n}\n");
    samples.push_back({k, {rows * n, rows, rows * n, rows * n, rows}, {}, {rows, n}, {}, rows});
  }
  EXPECT_NE(cuda::program_text(std::vector<const Kernel*>{&samples[0].kernel}).text.find("div_lanes(x2"),
            std::string::npos);
  expect_same(samples, {});
}

TEST(CudaEmulated, RandomKernels) {
  SKIP_UNDER_SANITIZER;
  std::vector<KernelSample> samples;
  std::vector<std::vector<int64_t>> limits;
  const char* more = std::getenv("SMOLDER_CUDA_SEEDS");
  for (uint64_t seed = 0; seed < (more ? std::stoull(more) : 40); ++seed) {
    RandomKernel r = random_kernel(seed);
    if (seed % 2 == 0) r.kernel.row = cuda::row_size(r.kernel, r.ints);
    samples.push_back(
        {std::move(r.kernel), std::move(r.sizes), {}, std::move(r.ints), std::move(r.scalars), r.positions});
    limits.push_back(std::move(r.index_limit));
  }
  expect_same(samples, limits);
}

TEST(CudaEmulated, KernelsOfOps) {
  SKIP_UNDER_SANITIZER;
  const bool all = std::getenv("SMOLDER_CUDA_ALL") != nullptr;
  std::vector<KernelSample> samples;
  for (size_t i = 0; i < op_kernels().size(); i += all ? 1 : 16) samples.push_back(op_kernels()[i]);
  expect_same(samples, {});
}

// Gradients over what they are computed from: rows that threads hold in registers, and rows that they read again, which
// no loop may do that comes after the first store.
TEST(CudaEmulated, RowsInPlace) {
  SKIP_UNDER_SANITIZER;
  using ir::ReduceKind, ir::Value;
  std::vector<KernelSample> samples;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t n : {7, 24, 1000, 5000, 40000}) {
      PlanTest t;
      const auto rows = t.size(3), columns = t.size(n);
      const auto input = [&] { return t.b.cast(t.input({rows, columns}, dtype), DType::kFloat32); };
      const auto sum = [&](const Value& v) { return t.b.reduce(ReduceKind::kSum, v, {1}, true); };
      const Value x = input(), e = exp(x - t.b.reduce(ReduceKind::kMax, x, {1}, true));
      t.output(t.b.cast(e / sum(e), dtype));
      const Value p = input(), dy = input();
      t.output(t.b.cast(p * (dy - sum(p * dy)), dtype));
      const Value z = input(), g = input(), mean = sum(z) / t.b.number(columns), c = z - mean;
      const Value scaled = c * rsqrt(sum(c * c) / t.b.number(columns) + 1e-5);
      t.output(t.b.cast(g - sum(g) / t.b.number(columns) - scaled * sum(g * scaled), dtype));
      for (KernelSample& s : kernels_of(t.g, t.symbols, {}, DeviceType::kCUDA)) {
        EXPECT_FALSE(s.in_place.empty()) << print(s.kernel);
        samples.push_back(std::move(s));
      }
    }
  }
  expect_same(samples, {});
}

// The backward pass of layer_norm writes its normalised rows anew: what groups of threads add to columns stays as it
// is.
TEST(CudaEmulated, NormalisedRowsAreWrittenAgain) {
  SKIP_UNDER_SANITIZER;
  using ir::ReduceKind, ir::Value;
  constexpr RecomputeLimits kAnything = {.scarce = 0, .share = 1, .saved = 0.5};
  std::vector<KernelSample> samples;
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{40, 96}, {700, 768}, {300, 1027}, {140, 5000}}) {
    PlanTest t;
    const auto n = t.size(rows), m = t.size(columns), wide = t.size(8 * columns);
    const auto product = [&](Value a, Value b) { return t.b.dot(a, b, DType::kFloat32); };
    const auto turned = [&](Value a) { return t.b.permute(a, {0, 2, 1}); };
    const auto mean = [&](Value v) { return t.b.reduce(ReduceKind::kSum, v, {2}, true) / t.b.number(m); };
    const Value x = product(t.input({1, n, m}), t.input({1, m, m})), w = t.input({m}), b = t.input({m});
    const Value up = t.input({1, m, m}), out = t.input({1, m, wide});
    const Value centred = x - mean(x), rstd = rsqrt(mean(centred * centred) + 1e-5), scaled = centred * rstd;
    const Value normal = scaled * w + b, dh = product(exp(product(product(normal, up), out)), turned(out));
    t.output(product(turned(normal), dh));
    const Value dy = product(dh, turned(up)), g = dy * w;
    t.output((g - mean(g) - scaled * mean(g * scaled)) * rstd);
    t.output(t.b.reduce(ReduceKind::kSum, dy * scaled, {0, 1}, false));
    for (KernelSample& s : kernels_of(t.g, t.symbols, {}, DeviceType::kCUDA, &kAnything)) {
      const auto whole = std::ranges::count(s.sizes, rows * columns);
      if (whole >= 4)
        samples.push_back(std::move(s));  // the row, its gradient, that of the row, and the row written anew
    }
  }
  EXPECT_EQ(samples.size(), 4u);
  expect_same(samples, {});
}

// -- compiling

#define SKIP_WITHOUT_NVRTC \
  SKIP_UNDER_SANITIZER;    \
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

TEST(CudaCompiler, CodeIsOfThisBuild) {
  SKIP_WITHOUT_NVRTC;
  const std::string target = cuda::target_of("sm_90");
  EXPECT_TRUE(std::regex_search(target, std::regex("^cuda [0-9a-f]{40} sm_90 nvrtc [0-9]"))) << target;
}

template <class T>
T at(const std::string& bytes, size_t offset) {
  T x;
  std::memcpy(&x, bytes.data() + offset, sizeof x);
  return x;
}

/// Barriers that a block of a cubin's kernel asks for: EIATTR_NUM_BARRIERS among the attributes in its .nv.info
/// section.
int barriers_of(const std::string& elf) {
  constexpr uint8_t kNumBarriers = 0x4c, kWords = 4;  // an attribute; a format, which is followed by so many bytes
  const auto sections = at<uint64_t>(elf, 40);
  const auto names = at<uint64_t>(elf, sections + 64 * at<uint16_t>(elf, 62) + 24);
  for (uint64_t i = 0; i < at<uint16_t>(elf, 60); ++i) {
    const uint64_t section = sections + 64 * i;
    if (!std::string_view(elf.c_str() + names + at<uint32_t>(elf, section)).starts_with(".nv.info.")) continue;
    const auto begin = at<uint64_t>(elf, section + 24), end = begin + at<uint64_t>(elf, section + 32);
    for (uint64_t j = begin; j < end; j += at<uint8_t>(elf, j) == kWords ? 4 + at<uint16_t>(elf, j + 2) : 4) {
      if (at<uint8_t>(elf, j + 1) == kNumBarriers) return at<uint16_t>(elf, j + 2);
    }
  }
  return -1;
}

// A block that asks for all 16 leaves no room for others: rows of 1024 took half as long again.
TEST(CudaKernel, RowsAskForOneBarrier) {
  SKIP_WITHOUT_NVRTC;
  const Kernel row = golden("softmax"), sums = golden("layer_norm_backward");
  const auto barriers = [](const Kernel& k) {
    const Kernel* kernels[] = {&k};
    return barriers_of(cuda::object_from_bytes(cuda::compile(kernels, "sm_90")[0].bytes).cubin);
  };
  EXPECT_EQ(barriers(row), 1);
  EXPECT_EQ(barriers(sums), 16);
}

TEST(CudaKernel, RandomKernelsCompile) {
  SKIP_WITHOUT_NVRTC;
  uint64_t seed = 0;
  for (const char* arch : kArchitectures) {
    std::vector<Kernel> kernels;
    for (int i = 0; i < 8; ++i) kernels.push_back(random_kernel(seed++).kernel);
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
  constexpr size_t kEvery = 16;  // one in so many of those of an architecture
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
