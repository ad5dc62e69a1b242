// Whole kernels: generated code for this processor and for lesser ones against the interpreter of loop IR, bit for
// bit. Arrays end at pages that cannot be touched.
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <thread>

#include "jit/kernel_test_util.h"
#include "jit/random_kernel.h"
#include "smolder/core/error.h"
#include "smolder/jit/loop/loop_interpret.h"

namespace smolder::jit {
namespace {

using test::Array;
using test::backends;
using test::Compiled;

/// A kernel compiled for all of them.
class Everywhere {
 public:
  explicit Everywhere(const std::string& text) : kernel_(parse_loop(text)) {
    for (Backend* b : backends()) compiled_.emplace_back(text, *b);
  }
  explicit Everywhere(const Kernel& k) : Everywhere(print(k)) {}
  const Kernel& kernel() const { return kernel_; }

  /// Runs in three ranges, compares all buffers and errors.
  void check(const std::vector<Array>& buffers, const std::vector<int64_t>& ints, const std::vector<uint64_t>& scalars,
             int64_t positions) const {
    std::vector<Array> want = copies(buffers);
    std::vector<void*> pointers;
    for (const Array& x : want) pointers.push_back(x.data());
    std::vector<uint32_t> errors(kernel_.num_errors);
    ranges(positions, [&](int64_t begin, int64_t end) {
      interpret(kernel_, pointers.data(), ints.data(), scalars.data(), errors.data(), begin, end);
    });
    for (size_t i = 0; i < compiled_.size(); ++i) {
      SCOPED_TRACE(backends()[i]->target().substr(0, 60));
      std::vector<Array> got = copies(buffers);
      std::vector<uint32_t> got_errors(kernel_.num_errors);
      ranges(positions, [&](int64_t begin, int64_t end) {
        const std::vector<uint32_t> e = compiled_[i].run(got, ints, scalars, begin, end);
        for (size_t j = 0; j < e.size(); ++j) got_errors[j] |= e[j];
      });
      for (size_t j = 0; j < got.size(); ++j) EXPECT_TRUE(test::same(got[j], want[j])) << "buffer " << j;
      EXPECT_EQ(got_errors, errors);
    }
  }
  /// The same on random elements.
  void check(const std::vector<int64_t>& sizes, const std::vector<int64_t>& ints, const std::vector<uint64_t>& scalars,
             int64_t positions, bool special = false) const {
    std::mt19937_64 random(positions);
    check(arrays(sizes, random, special), ints, scalars, positions);
  }
  std::vector<Array> arrays(const std::vector<int64_t>& sizes, std::mt19937_64& random, bool special) const {
    std::vector<Array> buffers;
    for (size_t i = 0; i < sizes.size(); ++i) {
      buffers.emplace_back(kernel_.buffers[i].dtype, sizes[i]);
      if (special) {
        buffers.back().fill_special(random);
      } else {
        buffers.back().fill(random);
      }
    }
    return buffers;
  }

 private:
  template <class F>
  static void ranges(int64_t positions, F&& run) {
    const int64_t a = positions / 3, b = positions - positions / 4;
    run(0, a);
    run(a, b);
    run(b, positions);
  }
  static std::vector<Array> copies(const std::vector<Array>& buffers) {
    std::vector<Array> c;
    for (const Array& x : buffers) c.push_back(x.clone());
    return c;
  }

  Kernel kernel_;
  std::vector<Compiled> compiled_;
};

std::string golden(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream("tests/golden/loop/" + name + ".smir").rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

uint64_t bits(double v) { return std::bit_cast<uint64_t>(v); }

TEST(LlvmKernel, Golden) {
  const Everywhere gelu(golden("gelu")), softmax(golden("softmax")), layer_norm(golden("layer_norm")),
      dropout(golden("dropout")), column_sum(golden("column_sum"));
  for (const int64_t n : {1, 5, 16, 47, 1000}) {
    gelu.check({n, n}, {n}, {}, n, true);
    softmax.check({7 * n, 7 * n}, {7, n}, {}, 7);
    layer_norm.check({5 * n, n, n, 5 * n}, {5, n}, {bits(1e-5), static_cast<uint64_t>(n)}, 5);
    dropout.check({1, n, n, n}, {n}, {3, bits(2147483648.0)}, n);
  }
  for (const int64_t rows : {1, 128, 300}) {
    for (const int64_t columns : {1, 1000, 1024, 2100}) {
      const int64_t row_chunks = (rows + 127) / 128, column_chunks = (columns + 1023) / 1024;
      column_sum.check({row_chunks * columns, rows * columns},
                       {row_chunks, column_chunks, columns, rows, 128 * columns}, {}, row_chunks * column_chunks);
    }
  }
}

TEST(LlvmKernel, PaddingAndConcatenation) {
  // Rows of 6 with a row above and two columns before, beside rows of 4 backwards.
  const Everywhere kernel(golden("pad_and_cat"));
  const int64_t rows = 5, columns = 40, width = 6, inner = 3;
  kernel.check({inner * width, rows * 4 + 4, rows * columns}, {rows, columns, -(width + 2), width, inner, 4}, {}, rows);
}

TEST(LlvmKernel, DivisionsOfConsecutiveNumbers) {
  const Everywhere kernel(
      "kernel {\n  buffers b0:int64 w, b1:int64 w\n  ints 3\n  parallel vector v0 < n0 {\n    %0 = index n2\n"
      "    %1 = index n1 + v0\n    %2 = floor_div int64 %1, %0\n    store b0[v0], %2\n"
      "    %3 = remainder int64 %1, %0\n    store b1[v0], %3\n  }\n}\n");
  constexpr int64_t kLong = int64_t{1} << 40, kElements = 100;
  for (const int64_t divisor : {-kLong, int64_t{-40}, int64_t{-3}, int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{2},
                                int64_t{3}, int64_t{7}, int64_t{15}, int64_t{16}, int64_t{17}, int64_t{31}, int64_t{32},
                                int64_t{33}, int64_t{47}, int64_t{64}, int64_t{1000}, kLong}) {
    for (const int64_t first : {int64_t{0}, int64_t{13}, int64_t{-50}, kLong - 20, -kLong - 20}) {
      kernel.check({kElements, kElements}, {kElements, first, divisor}, {}, kElements);
    }
  }
}

TEST(LlvmKernel, RowsOfReshapedArrays) {
  // Elements `first` on of an array whose rows of `columns` lie `pitch` apart; others are 0.5.
  const Everywhere kernel(
      "kernel {\n  buffers b0:float32 r, b1:float32 w\n  ints 5\n  parallel vector v0 < n0 {\n    %0 = index n2\n"
      "    %1 = index n1 + v0\n    %2 = floor_div int64 %1, %0\n    %3 = remainder int64 %1, %0\n"
      "    %4 = load b0[%2*n3 + %3] where 0 <= n1 + v0 < n4 else 0.5\n    store b1[v0], %4\n  }\n}\n");
  for (const int64_t columns : {1, 5, 16, 20, 48, 64}) {
    for (const int64_t pitch : {columns, columns + 3}) {
      for (const int64_t first : {0, -70, 7}) {
        const int64_t rows = 4;
        kernel.check({(rows - 1) * pitch + columns, 300}, {300, first, columns, pitch, rows * columns}, {}, 300);
      }
    }
  }
}

TEST(LlvmKernel, EveryFewElements) {
  // From the first to the last element of b0, which ends where memory does; a long body is one with masks.
  for (const DType t : test::kDTypes) {
    for (const int64_t step : {2, 3, 4, 5}) {
      for (const bool is_long : {false, true}) {
        const std::string dtype(name(t));
        std::string text = "kernel {\n  buffers b0:" + dtype + " r, b1:" + dtype +
                           " w\n  ints 1\n  parallel vector v0 < n0 {\n    %0 = load b0[v0*" + std::to_string(step) +
                           "]\n";
        int last = 0;
        for (; is_long && last < 30; ++last) {
          text += "    %" + std::to_string(last + 1) + " = " + (last % 2 ? "maximum " : "minimum ") + dtype + " %" +
                  std::to_string(last) + ", %0\n";
        }
        text += "    store b1[v0], %" + std::to_string(last) + "\n  }\n}\n";
        SCOPED_TRACE(text);
        const Everywhere kernel(text);
        for (const int64_t n : {1, 2, 15, 16, 17, 47, 64, 200}) kernel.check({(n - 1) * step + 1, n}, {n}, {}, n, true);
      }
    }
  }
}

TEST(LlvmKernel, IndicesAreWrappedClampedAndReported) {
  std::mt19937_64 random(1);
  const Everywhere kernel(golden("embedding"));
  for (const bool bad : {false, true}) {
    std::vector<Array> buffers = kernel.arrays({40, 10 * 33, 40 * 33}, random, false);
    for (int i = 0; i < 40; ++i) buffers[0].set_bits(i, static_cast<uint64_t>(int64_t(random() % 20) - 10));
    if (bad) buffers[0].set_bits(17, static_cast<uint64_t>(int64_t{-11}));
    kernel.check(buffers, {40, 10, 33}, {}, 40);
  }
}

TEST(LlvmKernel, RowReductionsAreCanonical) {
  constexpr const char* kKinds[] = {"sum", "prod", "max", "min", "any", "all"};
  for (int kind = 0; kind < 6; ++kind) {
    for (const DType t : test::kDTypes) {
      if (kind >= 4 && t != DType::kBool) continue;
      const std::string dtype(name(t));
      const std::string text = "kernel {\n  buffers b0:" + dtype + " r, b1:" + dtype +
                               " w\n  ints 3\n  parallel v0 < n0 {\n    acc a0 = " + kKinds[kind] + " " + dtype +
                               "\n    vector v1 < n1 {\n      %0 = load b0[v0*n1 + v1]\n      update a0, %0\n    }\n"
                               "    %1 = result a0\n    store b1[v0*n2], %1\n  }\n}\n";
      SCOPED_TRACE(text);
      const Everywhere kernel(text);
      for (const int64_t n : {0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 100, 1000}) {
        kernel.check({3 * n, 5}, {3, n, 2}, {}, 3, n < 64);
      }
    }
  }
}

TEST(LlvmKernel, StreamingStoresWriteTheSameWhereverRowsBegin) {
  for (const char* types : {"float32 float32", "float64 bfloat16", "bool int64", "float16 float16"}) {
    const std::string all(types);
    const std::string a = all.substr(0, all.find(' ')), b = all.substr(all.find(' ') + 1);
    const std::string text = "kernel {\n  buffers b0:" + a + " r, b1:" + a + " w, b2:" + b +
                             " w\n  ints 3\n  parallel v0 < n0 {\n    vector v1 < n1 {\n"
                             "      %0 = load b0[v0*n1 + v1]\n      stream b1[n2 + v0*n1 + v1], %0\n"
                             "      %1 = cast " +
                             b + " %0\n      stream b2[v0*n1 + v1], %1\n    }\n  }\n}\n";
    SCOPED_TRACE(text);
    const Everywhere kernel(text);
    for (const int64_t n : {1, 16, 31, 64, 100, 128, 333}) {
      for (const int64_t offset : {0, 1, 5, 16}) {
        kernel.check({4 * n, 4 * n + offset, 4 * n}, {4, n, offset}, {}, 4);
      }
    }
  }
}

TEST(LlvmKernel, TilesAreReadAcross) {
  // The transpose of b0, of so many rows and columns, in tiles; b2, a number for each row, is added.
  for (const DType t : test::kDTypes) {
    const std::string dtype(name(t)), tile = itemsize(t) < 4 ? "64" : "32";
    const std::string text =
        "kernel {\n  buffers b0:" + dtype + " r, b1:" + dtype + " r, b2:" + dtype +
        " w\n  ints 6\n  parallel v0 < n0, v1 < n1 {\n    loop v2 < " + tile +
        " clamp v0 of n2 {\n      %0 = load b1[v0*" + tile + " + v2]\n      vector v3 < " + tile +
        " clamp v1 of n3 {\n        %1 = load b0[v0*" + tile + " + v1*n4 + v2 + v3*n2]\n        %2 = maximum " + dtype +
        " %1, %0\n        store b2[v0*n5 + v1*" + tile + " + v2*n3 + v3], %2\n      }\n    }\n  }\n}\n";
    SCOPED_TRACE(text);
    const Everywhere kernel(text);
    const int64_t n = std::stoi(tile);
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{n, n}, {1, 5}, {70, 201}, {2 * n, n + 1}}) {
      const int64_t across = (rows + n - 1) / n, down = (columns + n - 1) / n;
      kernel.check({rows * columns, rows, rows * columns}, {across, down, rows, columns, n * rows, n * columns}, {},
                   across * down, true);
    }
  }
}

TEST(LlvmKernel, InPlace) {
  // One array as both the operand and the result.
  const std::string text =
      "kernel {\n  buffers b0:float32 r, b1:float32 r, b2:float32 w\n  ints 1\n  parallel vector v0 < n0 {\n"
      "    %0 = load b0[v0]\n    %1 = load b1[v0]\n    %2 = add float32 %0, %1\n    store b2[v0], %2\n  }\n}\n";
  for (Backend* backend : backends()) {
    const Compiled kernel(text, *backend);
    for (const int64_t n : {1, 16, 33, 1000}) {
      std::vector<float> x(n), y(n);
      for (int64_t i = 0; i < n; ++i) {
        x[i] = static_cast<float>(i);
        y[i] = 0.5f;
      }
      void* pointers[] = {x.data(), y.data(), x.data()};
      CompiledKernel code = backend->load(backend->compile(std::array{&kernel.kernel()})[0].bytes);
      code.fn(pointers, &n, nullptr, nullptr, 0, n);
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(x[i], static_cast<float>(i) + 0.5f);
    }
  }
}

void check_random(uint64_t seed) {
  test::RandomKernel r = test::random_kernel(seed);
  SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + print(r.kernel));
  ASSERT_NO_THROW(verify(r.kernel));
  ASSERT_EQ(print(parse_loop(print(r.kernel))), print(r.kernel));
  std::mt19937_64 random(seed);
  const Everywhere kernel(r.kernel);
  std::vector<Array> buffers = kernel.arrays(r.sizes, random, seed % 2 == 0);
  for (size_t b = 0; b < buffers.size(); ++b) {
    if (r.index_limit[b] < 0) continue;
    const int64_t limit = r.index_limit[b], wild = seed % 3 == 0 ? 1 : 0;
    for (int64_t i = 0; i < buffers[b].size(); ++i) {
      const auto any = static_cast<int64_t>(random() % (2 * limit + 2 * wild + 1)) - limit - wild;
      buffers[b].set_bits(i, static_cast<uint64_t>(any));
    }
  }
  kernel.check(buffers, r.ints, r.scalars, r.positions);
  if (seed % 8 != 0) return;
  const Renumbering order = canonicalize(r.kernel);
  ASSERT_NO_THROW(verify(r.kernel));
  std::vector<int64_t> ints;
  std::vector<uint64_t> scalars;
  std::vector<Array> reordered;
  for (const int32_t i : order.ints) ints.push_back(r.ints[i]);
  for (const int32_t i : order.scalars) scalars.push_back(r.scalars[i]);
  for (const int32_t i : order.buffers) reordered.push_back(buffers[i].clone());
  Everywhere(r.kernel).check(reordered, ints, scalars, r.positions);
}

TEST(LlvmRandomKernels, AgreeWithTheInterpreter) {
  for (uint64_t seed = 0; seed < 40 && !testing::Test::HasFailure(); ++seed) check_random(seed);
}
TEST(LlvmRandomKernels, DISABLED_AgreeWithTheInterpreterForLong) {
  for (uint64_t seed = 40; seed < 5000 && !testing::Test::HasFailure(); ++seed) check_random(seed);
}

TEST(LlvmBackend, RefusesDamagedObjects) {
  const Kernel k = parse_loop(golden("gelu"));
  const Kernel* kernels[] = {&k};
  const std::string object = llvm_backend().compile(kernels)[0].bytes;
  EXPECT_NO_THROW(llvm_backend().load(object));
  EXPECT_THROW(llvm_backend().load(""), ValueError);
  EXPECT_THROW(llvm_backend().load(object.substr(0, object.size() - 1)), ValueError);
  for (size_t i = 0; i < object.size(); i += 37) {
    std::string damaged = object;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    EXPECT_THROW(llvm_backend().load(damaged), ValueError) << i;
  }
}

TEST(LlvmBackend, FreesCode) {
  const Kernel k = parse_loop(golden("gelu"));
  const Kernel* kernels[] = {&k};
  CompiledKernel code = llvm_backend().load(llvm_backend().compile(kernels)[0].bytes);
  void* page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(code.fn) & ~uintptr_t{4095});
  unsigned char resident;
  EXPECT_EQ(mincore(page, 1, &resident), 0);
  const CompiledKernel copy = code;
  code = {};
  EXPECT_EQ(mincore(page, 1, &resident), 0);
  EXPECT_TRUE(resident & 1);
  const_cast<CompiledKernel&>(copy) = {};
  EXPECT_EQ(mincore(page, 1, &resident), 0);
  EXPECT_FALSE(resident & 1) << "its addresses are kept for others, its memory is not";
}

TEST(LlvmBackend, CompilesTheSameOnManyThreads) {
  std::vector<Kernel> kernels;
  for (const char* name : {"gelu", "softmax", "layer_norm", "column_sum", "embedding"}) {
    kernels.push_back(parse_loop(golden(name)));
  }
  std::vector<const Kernel*> batch;
  for (const Kernel& k : kernels) batch.push_back(&k);
  const std::vector<ObjectCode> want = llvm_backend().compile(batch);
  std::vector<std::thread> threads;
  std::vector<int> different(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 3; ++i) {
        const std::vector<ObjectCode> got = llvm_backend().compile(batch);
        for (size_t j = 0; j < got.size(); ++j) different[t] += got[j].bytes != want[j].bytes;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(different, std::vector<int>(4));
}

TEST(LlvmBackend, TargetNamesProcessorAndBuild) {
  const std::string t = llvm_backend().target();
  EXPECT_EQ(t.rfind("llvm ", 0), 0u);
  EXPECT_EQ(t.substr(t.rfind(' ') + 1).size(), 40u) << t;  // the build id
  for (Backend* b : backends()) EXPECT_TRUE(b == &llvm_backend() || b->target() != t);
}

}  // namespace
}  // namespace smolder::jit
