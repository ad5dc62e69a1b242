// Calls of one kernel in one launch: tables of arguments, and which steps of a plan become one launch.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "jit/cuda_emulator.h"
#include "jit/error_slots.h"
#include "jit/golden_text.h"
#include "jit/kernel_test_util.h"
#include "jit/random_kernel.h"
#include "smolder/ir/graph.h"
#include "smolder/jit/compile.h"
#include "smolder/jit/cuda/compiler.h"
#include "smolder/jit/cuda/schedule.h"
#include "smolder/jit/cuda/together.h"
#include "smolder/jit/loop/kernel_bytes.h"
#include "smolder/jit/loop/loop_interpret.h"

namespace smolder::jit::test {
namespace {

Kernel together(Kernel k) {
  k.together = true;
  return k;
}

/// The operands of one call. `shift`: elements by which the buffers begin later than they are aligned.
struct Call {
  std::vector<int64_t> sizes, ints;
  std::vector<uint64_t> scalars;
  int64_t positions = 0;
  std::vector<int64_t> index_limits = {};
  int64_t shift = 0;
};

/// Runs calls of a kernel as one, emulated, and each by itself, interpreted. Returns the launches that this took.
size_t expect_same(const CudaEmulator& emulator, size_t number, const Kernel& k, const std::vector<Call>& calls) {
  SCOPED_TRACE(print(k));
  std::mt19937_64 random(7);
  std::vector<std::vector<Array>> got, want;
  std::vector<std::vector<void*>> addresses;
  std::vector<ErrorSlots> errors(calls.size(), ErrorSlots(k.num_errors));
  std::vector<KernelArguments> arguments;
  for (size_t c = 0; c < calls.size(); ++c) {
    const Call& call = calls[c];
    got.emplace_back();
    want.emplace_back();
    addresses.emplace_back();
    for (size_t b = 0; b < call.sizes.size(); ++b) {
      Array a(k.buffers[b].dtype, call.sizes[b] + call.shift);
      const int64_t limit = call.index_limits.empty() ? -1 : call.index_limits[b];
      if (limit < 0) a.fill_special(random);
      for (int64_t i = 0; limit >= 0 && i < a.size(); ++i) {
        a.set_bits(i, random() % static_cast<uint64_t>(limit + 3) - 1);
      }
      want[c].push_back(a.clone());
      got[c].push_back(std::move(a));
      addresses[c].push_back(static_cast<char*>(got[c][b].data()) +
                             call.shift * static_cast<int64_t>(itemsize(k.buffers[b].dtype)));
    }
    errors[c].place(errors[c].data());
    arguments.push_back({addresses[c].data(), call.ints.data(), call.scalars.data(), errors[c].data(), call.positions});
  }
  const size_t launches = emulator.launch(number, arguments);
  for (size_t c = 0; c < calls.size(); ++c) {
    SCOPED_TRACE("call " + std::to_string(c));
    std::vector<void*> on_host;
    for (size_t b = 0; b < want[c].size(); ++b) {
      on_host.push_back(static_cast<char*>(want[c][b].data()) +
                        calls[c].shift * static_cast<int64_t>(itemsize(k.buffers[b].dtype)));
    }
    std::vector<uint32_t> want_errors(static_cast<size_t>(k.num_errors));
    interpret(k, on_host.data(), calls[c].ints.data(), calls[c].scalars.data(), want_errors.data(), 0,
              calls[c].positions, &cuda::reduce_order());
    for (size_t b = 0; b < want[c].size(); ++b) EXPECT_TRUE(same(got[c][b], want[c][b])) << "b" << b;
    EXPECT_EQ(errors[c].found(), want_errors);
  }
  return launches;
}

size_t expect_same(const Kernel& k, const std::vector<Call>& calls) {
  const Kernel* kernels[] = {&k};
  return expect_same(CudaEmulator(kernels, SMOLDER_HOST_CXX), 0, k, calls);
}

Call elements(int64_t n, int64_t shift = 0) { return {{n, n}, {n}, {}, n, {}, shift}; }

TEST(Together, TextIsKeptAndReadBack) {
  const Kernel one = golden("gelu"), many = together(one);
  EXPECT_NE(print(one), print(many));
  EXPECT_TRUE(parse_loop(print(many)).together);
  EXPECT_FALSE(parse_loop(print(one)).together);
  EXPECT_TRUE(from_bytes(to_bytes(many)).together);
  EXPECT_FALSE(from_bytes(to_bytes(one)).together);
}

TEST(Together, Text) {
  const Kernel k = together(golden("gelu"));
  const Kernel* kernels[] = {&k};
  expect_golden("tests/golden/cuda/gelu_together.cu", cuda::program_text(kernels).kernels[0]);
}

TEST(Together, OfAllSizes) {
  SKIP_UNDER_SANITIZER;
  const Kernel k = together(golden("gelu"));
  const Kernel* kernels[] = {&k};
  const CudaEmulator emulator(kernels, SMOLDER_HOST_CXX);
  const auto most = static_cast<size_t>(cuda::most_together(cuda::Schedule(k)));
  EXPECT_EQ(most, 64u);
  EXPECT_EQ(expect_same(emulator, 0, k, {elements(5000)}), 1u);
  EXPECT_EQ(expect_same(emulator, 0, k, {elements(1), elements(0), elements(4096), elements(1025, 1), elements(7, 3)}),
            1u);
  EXPECT_EQ(expect_same(emulator, 0, k, {elements(0), elements(0)}), 0u);
  for (const size_t count : {size_t{2}, most, most + 1, most + 2, size_t{200}}) {
    std::vector<Call> calls;
    for (size_t i = 0; i < count; ++i) calls.push_back(elements(static_cast<int64_t>(i * 37 % 3000), i % 5 == 4));
    EXPECT_EQ(expect_same(emulator, 0, k, calls), (count - 2) / most + 1) << count;  // the first has no elements
  }
}

TEST(Together, WhatIsWrittenTwiceByOneCallIsReadByIt) {
  SKIP_UNDER_SANITIZER;
  const Kernel k =
      together(parse_loop("kernel {\n  buffers b0:float32 rw, b1:bfloat16 r\n  ints 1\n  scalars float\n"
                          "  parallel vector v0 < n0 {\n    %0 = scalar float32 s0\n    %1 = load b0[v0]\n"
                          "    %2 = load b1[v0]\n    %3 = cast float32 %2\n    %4 = mul float32 %3, %0\n"
                          "    %5 = add float32 %1, %4\n    store b0[v0], %5\n  }\n}\n"));
  std::vector<Call> calls;
  for (const int64_t n : {700, 1, 2048, 9}) {
    calls.push_back({{n, n}, {n}, {std::bit_cast<uint64_t>(static_cast<double>(n))}, n});
  }
  EXPECT_EQ(expect_same(k, calls), 1u);
}

// Calls whose blocks have other threads are in launches of their own.
TEST(Together, RowsAndColumns) {
  SKIP_UNDER_SANITIZER;
  const Kernel softmax = together(golden("softmax")), sums = together(golden("column_sum")),
               norm = together(golden("layer_norm")), backward = together(golden("layer_norm_backward")),
               cat = together(golden("pad_and_cat")), embedding = together(golden("embedding"));
  const Kernel* kernels[] = {&softmax, &sums, &norm, &backward, &cat, &embedding};
  const CudaEmulator emulator(kernels, SMOLDER_HOST_CXX);
  std::vector<Call> calls;
  for (const int64_t n : {24, 1024, 31, 1000, 5}) calls.push_back({{3 * n, 3 * n}, {3, n}, {}, 3});
  EXPECT_EQ(expect_same(emulator, 0, softmax, calls), 3u);
  calls.clear();
  for (const int64_t columns : {5, 1000, 2100}) {
    const int64_t rows = 300, row_chunks = 3, column_chunks = (columns + 1023) / 1024;
    calls.push_back({{row_chunks * columns, rows * columns},
                     {row_chunks, column_chunks, columns, rows, 128 * columns},
                     {},
                     row_chunks * column_chunks});
  }
  calls.push_back({{0, 0}, {0, 1, 16, 0, 128 * 16}, {}, 0});
  EXPECT_LE(expect_same(emulator, 1, sums, calls), 3u);
  calls.clear();
  for (const int64_t n : {5, 256, 1024}) {
    calls.push_back({{5 * n, n, n, 5 * n}, {5, n}, {std::bit_cast<uint64_t>(1e-5), static_cast<uint64_t>(n)}, 5});
  }
  EXPECT_LE(expect_same(emulator, 2, norm, calls), 3u);
  calls.clear();
  for (const int64_t rows : {5, 300}) {
    for (const int64_t n : {3, 100, 1100}) {
      const int64_t chunks = (rows + 127) / 128, all = rows * n;
      calls.push_back({{chunks * n, chunks * n, rows, rows, all, n, all, all}, {chunks, n, rows, 128 * n}, {}, chunks});
    }
  }
  if (cuda::may_run_together(backward)) expect_same(emulator, 3, backward, calls);
  expect_same(emulator, 4, cat,
              {{{18, 24, 200}, {5, 40, -8, 6, 3, 4}, {}, 5}, {{18, 24, 200}, {5, 40, -8, 6, 3, 4}, {}, 5}});
  // The error word is that of the call with the bad index.
  calls.clear();
  for (const int64_t n : {4, 40, 4, 300}) calls.push_back({{n, 10 * 24, n * 24}, {n, 10, 24}, {}, n, {10, -1, -1}});
  EXPECT_EQ(expect_same(emulator, 5, embedding, calls), 1u);
}

TEST(Together, RandomKernels) {
  SKIP_UNDER_SANITIZER;
  std::vector<RandomKernel> samples;
  for (uint64_t seed = 500; samples.size() < 40; ++seed) {
    RandomKernel r = random_kernel(seed);
    if (!cuda::may_run_together(r.kernel)) continue;
    r.kernel.together = true;
    samples.push_back(std::move(r));
  }
  std::vector<const Kernel*> kernels;
  for (const RandomKernel& r : samples) kernels.push_back(&r.kernel);
  const CudaEmulator emulator(kernels, SMOLDER_HOST_CXX);
  for (size_t i = 0; i < samples.size(); ++i) {
    const RandomKernel& r = samples[i];
    const Call call{r.sizes, r.ints, r.scalars, r.positions, r.index_limit};
    const auto most = static_cast<size_t>(cuda::most_together(cuda::Schedule(r.kernel)));
    EXPECT_EQ(expect_same(emulator, i, r.kernel, {call, call, call}), r.positions > 0 ? 2 / most + 1 : 0);
  }
}

TEST(Together, TablesAreNoLargerThanArgumentsMayBe) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const RandomKernel r = random_kernel(seed);
    const Kernel k = together(r.kernel);
    const cuda::Schedule schedule(k);
    const int64_t most = cuda::most_together(schedule);
    if (most == 0) {
      EXPECT_TRUE(cuda::has_shared_rows(schedule.kernel));
      continue;
    }
    std::vector<void*> buffers(k.buffers.size());
    const KernelArguments call{buffers.data(), r.ints.data(), r.scalars.data(), nullptr, r.positions};
    for (const cuda::TableLaunch& t : cuda::launch_together(schedule, {&call, 1}, test::emulated_device())) {
      EXPECT_LE(t.words.size() * 8, 4096u);
    }
  }
}

// -- which steps are launched together

class Disabled {
 public:
  explicit Disabled(const char* what) { setenv("SMOLDER_DISABLE", what, 1); }
  ~Disabled() { unsetenv("SMOLDER_DISABLE"); }
};

/// By launch: the names of its steps.
std::vector<std::vector<std::string>> launches(const std::string& text) {
  const std::string steps = text_after(ir::parse(text), {.device = DeviceType::kCUDA}, "schedule");
  static const std::regex line(R"(step \d+ launch (\d+): (\S+))");
  std::vector<std::vector<std::string>> all;
  for (std::sregex_iterator i(steps.begin(), steps.end(), line), end; i != end; ++i) {
    all.resize(std::stoul((*i)[1]) + 1);
    all.back().push_back((*i)[2]);
  }
  return all;
}

std::string leaf(int number, const std::string& shape, const std::string& strides) {
  const std::string n = std::to_string(number);
  return "%" + n + " = leaf(number=" + n + ", offset=0, strides=[" + strides + "]) : float32[" + shape + "]\n";
}

/// Parameters p and the gradients of a product each, which updates read: u = p - 0.5 * (x @ w).
std::string updates(int count, int extent) {
  std::string text = "symbols s0=" + std::to_string(extent) + "\n" + leaf(0, "s0, s0", "s0, 1"), results;
  int next = count + 1;
  for (int i = 1; i <= count; ++i) text += leaf(i, "s0, s0", "s0, 1");
  std::string w = "%0";
  const auto value = [&](const std::string& what) {
    text += "%" + std::to_string(next) + " = " + what + " : float32[s0, s0]\n";
    return "%" + std::to_string(next++);
  };
  for (int i = 1; i <= count; ++i) {
    w = value("dot(" + w + ", %0, _, dtype=float32)");
    const std::string p = "%" + std::to_string(i);
    results += (i > 1 ? ", " : "") + value("sub(" + p + ", " + w + ")");
  }
  return text + "return " + results + "\n";
}

TEST(Together, UpdatesWaitForEachOther) {
  const auto all = launches(updates(5, 64));
  ASSERT_EQ(all.size(), 6u);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(all[i], std::vector<std::string>{"dot"});
  EXPECT_EQ(all[5], std::vector<std::string>(5, "sub"));
  const Disabled none("together");
  EXPECT_EQ(launches(updates(5, 64)).size(), 10u);
}

// Each moves 12 MiB: four are enough to do.
TEST(Together, UpdatesOfMuchDoNotWaitForAll) {
  const std::vector<std::string> dot{"dot"}, four(4, "sub"), two(2, "sub");
  const std::vector<std::vector<std::string>> want{dot, dot, dot, dot, four, dot, dot, two};
  EXPECT_EQ(launches(updates(6, 1024)), want);
}

// A large call takes a device as long by itself.
TEST(Together, LargeUpdatesRunByThemselves) {
  for (const std::vector<std::string>& launch : launches(updates(3, 4096))) EXPECT_EQ(launch.size(), 1u);
}

// A product of the updated parameter waits for the update, so that is not put off.
TEST(Together, WhatOthersWaitForIsNotPutOff) {
  const std::string text = "symbols s0=64\n" + leaf(0, "s0, s0", "s0, 1") + leaf(1, "s0, s0", "s0, 1") +
                           "%2 = neg(%0) : float32[s0, s0]\n%3 = dot(%2, %1, _, dtype=float32) : float32[s0, s0]\n"
                           "%4 = neg(%3) : float32[s0, s0]\n%5 = dot(%4, %1, _, dtype=float32) : float32[s0, s0]\n"
                           "%6 = neg(%5) : float32[s0, s0]\nreturn %6\n";
  const std::vector<std::vector<std::string>> want{{"neg"}, {"dot"}, {"neg"}, {"dot"}, {"neg"}};
  EXPECT_EQ(launches(text), want);
}

}  // namespace
}  // namespace smolder::jit::test
