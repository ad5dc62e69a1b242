// Every elementwise primitive and cast, of every dtype and of lengths around the vectors', as generated code and as
// the host computes it. The bits are equal, but for which nan a nan is.
#include <array>

#include "jit/kernel_test_util.h"
#include "smolder/ir/scalar/emit.h"
#include "smolder/ir/scalar/evaluate.h"
#include "smolder/ir/scalar/random.h"

namespace smolder::jit {
namespace {

namespace scalar = ir::scalar;
using scalar::HostBuilder;
using scalar::Primitive;
using test::Array;
using test::Compiled;

constexpr int64_t kLengths[] = {0, 1, 15, 16, 17, 31, 32, 33, 100, 3000};

HostBuilder::V load(const Array& a, int64_t i) {
  HostBuilder b;
  return scalar::emit_load(b, a.dtype(), HostBuilder::V{a.bits(i)});
}
void store(Array& a, int64_t i, HostBuilder::V v) {
  HostBuilder b;
  a.set_bits(i, scalar::emit_store(b, a.dtype(), v).bits);
}

std::string declare(const std::vector<DType>& operands, DType result) {
  std::string s = "kernel {\n  buffers ";
  int n = 0;
  for (const DType t : operands) s += "b" + std::to_string(n++) + ":" + std::string(name(t)) + " r, ";
  return s + "b" + std::to_string(n) + ":" + std::string(name(result)) + " w\n  ints 1\n";
}

/// Loads of b0.. at v0, then `line` (which defines %9), then its store.
std::string elementwise(const std::vector<DType>& operands, DType result, const std::string& line) {
  std::string s = declare(operands, result) + "  parallel vector v0 < n0 {\n";
  for (size_t i = 0; i < operands.size(); ++i) {
    s += "    %" + std::to_string(i) + " = load b" + std::to_string(i) + "[v0]\n";
  }
  const std::string value = std::to_string(operands.size());
  return s + "    %" + value + " = " + line + "\n    store b" + value + "[v0], %" + value + "\n  }\n}\n";
}

template <class Host>
void check(const std::string& text, const std::vector<DType>& operands, DType result, Host&& host) {
  SCOPED_TRACE(text);
  // The first two are this processor and the least one.
  std::vector<Compiled> kernels;
  for (size_t i = 0; i < 2 && i < test::backends().size(); ++i) kernels.emplace_back(text, *test::backends()[i]);
  std::mt19937_64 random(1);
  for (const int64_t n : kLengths) {
    std::vector<Array> buffers;
    for (const DType t : operands) {
      buffers.emplace_back(t, n);
      buffers.back().fill_special(random);
    }
    buffers.emplace_back(result, n);
    Array want(result, n);
    for (int64_t i = 0; i < n; ++i) {
      std::array<HostBuilder::V, 3> args{};
      for (size_t k = 0; k < operands.size(); ++k) args[k] = load(buffers[k], i);
      store(want, i, host(std::span<const HostBuilder::V>(args.data(), operands.size())));
    }
    for (const Compiled& kernel : kernels) {
      buffers.back() = Array(result, n);
      kernel.run(buffers, {n}, {}, 0, n);
      ASSERT_TRUE(test::same(buffers.back(), want));
    }
  }
}

class LlvmPrimitive : public testing::TestWithParam<int> {};

TEST_P(LlvmPrimitive, HasTheBitsOfTheHost) {
  const auto p = static_cast<Primitive>(GetParam());
  const auto& info = scalar::info(p);
  for (const DType t : test::kDTypes) {
    if (!info.takes(t)) continue;
    std::vector<DType> operands(info.arity, t);
    if (p == Primitive::kWhere) operands[0] = DType::kBool;
    std::string line = std::string(info.name) + " " + std::string(name(t));
    for (int i = 0; i < info.arity; ++i) line += (i == 0 ? " %" : ", %") + std::to_string(i);
    const DType result = info.result_dtype(t);
    check(elementwise(operands, result, line), operands, result, [&](std::span<const HostBuilder::V> args) {
      HostBuilder b;
      return scalar::emit_primitive(b, p, t, args);
    });
  }
}

std::string primitive_name(const testing::TestParamInfo<int>& i) {
  return std::string(scalar::info(static_cast<Primitive>(i.param)).name);
}
INSTANTIATE_TEST_SUITE_P(All, LlvmPrimitive, testing::Range(0, scalar::kNumPrimitives), primitive_name);

TEST(LlvmCast, HasTheBitsOfTheHost) {
  for (const DType from : test::kDTypes) {
    for (const DType to : test::kDTypes) {
      const std::string line = "cast " + std::string(name(to)) + " %0";
      check(elementwise({from}, to, line), {from}, to, [&](std::span<const HostBuilder::V> args) {
        HostBuilder b;
        return scalar::emit_cast(b, from, to, args[0]);
      });
    }
  }
}

TEST(LlvmRandomBits, DependOnThePositionAlone) {
  const std::string text =
      "kernel {\n  buffers b0:int64 w\n  ints 2\n  scalars int int\n  parallel vector v0 < n0 {\n"
      "    %0 = scalar int64 s0\n    %1 = scalar int64 s1\n    %2 = index n1 + v0\n"
      "    %3 = random_bits int64 %0, %1, %2\n    store b0[v0], %3\n  }\n}\n";
  const Compiled kernel(text);
  HostBuilder b;
  using I64 = scalar::I64<HostBuilder>;
  const uint64_t seed = 0x123456789abcdef0, offset = 0xfffffffffffffffe;
  for (const int64_t start : {0, 1, 2, 3, 4, 1000003}) {
    std::vector<Array> buffers;
    buffers.emplace_back(DType::kInt64, 100);
    kernel.run(buffers, {100, start}, {seed, offset}, 0, 37);  // two ranges, the second misaligned
    kernel.run(buffers, {100, start}, {seed, offset}, 37, 100);
    for (int64_t i = 0; i < 100; ++i) {
      const auto want = scalar::random_bits(I64{&b, static_cast<int64_t>(seed)}, I64{&b, static_cast<int64_t>(offset)},
                                            I64{&b, start + i});
      ASSERT_EQ(buffers[0].bits(i), static_cast<uint32_t>(want.v)) << start << " + " << i;
    }
  }
}

}  // namespace
}  // namespace smolder::jit
