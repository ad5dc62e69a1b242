// The oracle itself, against values worked out by hand or published.
#include "smolder/ir/interpret.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "smolder/ir/decompose.h"
#include "smolder/ir/interpret_number.h"

namespace smolder::ir {
namespace {

using reference::convert;
using scalar::Primitive;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kMin64 = std::numeric_limits<int64_t>::min(), kMax64 = std::numeric_limits<int64_t>::max();

PlainTensor floats(Dims shape, std::vector<double> v, DType t = DType::kFloat32) {
  PlainTensor out{t, shape, {}, false};
  for (double x : v) out.elements.push_back(convert(x, t));
  return out;
}
PlainTensor ints(Dims shape, std::vector<int64_t> v, DType t = DType::kInt64) {
  PlainTensor out{t, shape, {}, false};
  for (int64_t x : v) out.elements.push_back(convert(x, t));
  return out;
}
std::vector<double> numbers(const PlainTensor& t) {
  std::vector<double> out;
  for (const Scalar& v : t.elements) out.push_back(v.to_double());
  return out;
}
using Numbers = std::vector<double>;

/// Builds a graph with `f` over leaves shaped as the tensors, and runs it on them.
template <class F>
PlainTensor run(std::vector<PlainTensor> leaves, F f) {
  Graph g;
  Builder b(g);
  std::vector<Value> values;
  for (size_t i = 0; i < leaves.size(); ++i) {
    values.push_back(b.leaf(static_cast<int>(i), leaves[i].dtype, SymDims(leaves[i].shape)));
  }
  g.outputs = {f(b, values).id};
  verify(g);
  return interpret(g, leaves)[0];
}

Scalar unary(Primitive p, DType t, Scalar x) { return reference::evaluate(p, t, {&x, 1}); }
Scalar binary(Primitive p, DType t, Scalar x, Scalar y) { return reference::evaluate(p, t, std::array{x, y}); }

TEST(InterpretNumber, Casts) {
  EXPECT_EQ(convert(3.99, DType::kInt32).to_int(), 3);
  EXPECT_EQ(convert(-3.99, DType::kInt64).to_int(), -3);
  EXPECT_EQ(convert(1e30, DType::kInt32).to_int(), 2147483647);
  EXPECT_EQ(convert(-1e30, DType::kInt64).to_int(), kMin64);
  EXPECT_EQ(convert(kNan, DType::kInt64).to_int(), 0);
  EXPECT_EQ(convert(300.0, DType::kUInt8).to_int(), 44);
  EXPECT_EQ(convert(-1.0, DType::kUInt8).to_int(), 255);
  EXPECT_EQ(convert(130.0, DType::kInt8).to_int(), -126);
  EXPECT_EQ(convert(-32769.0, DType::kInt16).to_int(), 32767);
  EXPECT_EQ(convert(Scalar(int64_t{1} << 40), DType::kInt32).to_int(), 0);
  EXPECT_EQ(convert(0.1, DType::kBool).category(), Category::kBool);
  EXPECT_TRUE(convert(kNan, DType::kBool).to_bool());
  EXPECT_EQ(convert(0.1, DType::kFloat16).to_double(), 0.0999755859375);
  EXPECT_EQ(convert(0.1, DType::kBFloat16).to_double(), 0.10009765625);
  EXPECT_EQ(convert(65520.0, DType::kFloat16).to_double(), kInf);
  // Above 2^53 an int64 rounds to float32 once: by way of double this one would round to even, down.
  EXPECT_EQ(convert(Scalar((int64_t{1} << 60) + (int64_t{1} << 36) + 1), DType::kFloat32).to_double(),
            std::ldexp(1.0, 60) + std::ldexp(1.0, 37));
}

TEST(InterpretNumber, Integers) {
  using enum Primitive;
  EXPECT_EQ(binary(kFloorDiv, DType::kInt64, -7, 2).to_int(), -4);
  EXPECT_EQ(binary(kFloorDiv, DType::kInt64, 7, 0).to_int(), 0);
  EXPECT_EQ(binary(kFloorDiv, DType::kInt64, kMin64, -1).to_int(), kMin64);
  EXPECT_EQ(binary(kRemainder, DType::kInt32, -7, 3).to_int(), 2);
  EXPECT_EQ(binary(kRemainder, DType::kInt32, 7, -3).to_int(), -2);
  EXPECT_EQ(binary(kFmod, DType::kInt32, -7, 3).to_int(), -1);
  EXPECT_EQ(binary(kPow, DType::kInt32, 3, 20).to_int(), static_cast<int32_t>(3486784401ll));
  EXPECT_EQ(binary(kPow, DType::kInt64, 2, -1).to_int(), 0);
  EXPECT_EQ(binary(kPow, DType::kInt64, -1, -3).to_int(), -1);
  EXPECT_EQ(binary(kAdd, DType::kUInt8, 200, 100).to_int(), 44);
  EXPECT_EQ(binary(kAdd, DType::kInt8, 100, 100).to_int(), -56);
  EXPECT_EQ(unary(kNeg, DType::kInt16, -32768).to_int(), -32768);
  EXPECT_EQ(binary(kSub, DType::kInt64, kMin64, 1).to_int(), kMax64);
  EXPECT_EQ(binary(kMul, DType::kInt32, 1 << 20, 1 << 20).to_int(), 0);
  EXPECT_EQ(unary(kAbs, DType::kInt32, int64_t{std::numeric_limits<int32_t>::min()}).to_int(), -2147483648ll);
  EXPECT_EQ(binary(kShl, DType::kInt32, 1, 31).to_int(), -2147483648ll);
  EXPECT_EQ(binary(kShl, DType::kInt32, 1, 32).to_int(), 0);
  EXPECT_EQ(binary(kShr, DType::kInt64, -8, 100).to_int(), -1);
  EXPECT_EQ(binary(kAdd, DType::kBool, true, true).to_int(), 1);
  EXPECT_EQ(unary(kBitwiseNot, DType::kBool, true).to_int(), 0);
  EXPECT_EQ(unary(kBitwiseNot, DType::kUInt8, 1).to_int(), 254);
  EXPECT_TRUE(binary(kLt, DType::kInt64, kMax64 - 1, kMax64).to_bool());
}

TEST(InterpretNumber, Floats) {
  using enum Primitive;
  EXPECT_EQ(unary(kRound, DType::kFloat32, 2.5).to_double(), 2);
  EXPECT_EQ(unary(kSign, DType::kFloat32, kNan).to_double(), 0);
  EXPECT_TRUE(std::isnan(unary(kRelu, DType::kFloat32, kNan).to_double()));
  EXPECT_TRUE(std::isnan(binary(kMaximum, DType::kFloat32, kNan, 1.0).to_double()));
  EXPECT_TRUE(std::isnan(binary(kMinimum, DType::kFloat32, 1.0, kNan).to_double()));
  EXPECT_EQ(binary(kFloorDiv, DType::kFloat64, -1.0, 0.1).to_double(), -10);
  EXPECT_EQ(binary(kFloorDiv, DType::kFloat64, 1.0, 0.0).to_double(), kInf);
  EXPECT_EQ(binary(kRemainder, DType::kFloat64, -5.0, 3.0).to_double(), 1);
  EXPECT_EQ(binary(kFmod, DType::kFloat64, -5.0, 3.0).to_double(), -2);
  EXPECT_EQ(unary(kSigmoid, DType::kFloat64, -745.0).to_double(), std::exp(-745.0));
  EXPECT_EQ(binary(kAdd, DType::kFloat16, 2048.0, 1.0).to_double(), 2048);  // ties to even
  EXPECT_EQ(binary(kAdd, DType::kBFloat16, 256.0, 1.0).to_double(), 256);
  EXPECT_EQ(unary(kExp, DType::kFloat32, 1.0).to_double(), static_cast<double>(std::exp(1.0f)));
  EXPECT_FALSE(binary(kEq, DType::kFloat32, kNan, kNan).to_bool());
  EXPECT_TRUE(binary(kNe, DType::kFloat32, kNan, kNan).to_bool());
  // One rounding: the product alone would round to 1.
  const double tiny = std::ldexp(1.0, -12);
  const Scalar fma[] = {1 + tiny, 1 - tiny, -1.0};
  EXPECT_EQ(reference::evaluate(kFma, DType::kFloat32, fma).to_double(), -tiny * tiny);
}

TEST(InterpretNumber, PhiloxKnownAnswers) {  // Random123, kat_vectors: philox4x32 10
  const auto expect = [](reference::Philox p, std::array<uint32_t, 4> words) {
    for (int i = 0; i < 4; ++i) EXPECT_EQ(p.word[i], words[i]) << i;
  };
  expect(reference::philox(0, 0, 0), {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  expect(reference::philox(~0ull, ~0ull, ~0ull), {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  expect(reference::philox(0x85a308d3243f6a88, 0x0370734413198a2e, 0x299f31d0a4093822),
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST(Interpret, NumbersConvertStraightToTheComputeType) {
  // 0.1 is not rounded to float16 before the product, which then rounds once.
  const auto product = [](Builder& b, auto& v) { return v[0] * b.constant(0.1); };
  const double expected = convert(static_cast<double>(3.0f * 0.1f), DType::kFloat16).to_double();
  EXPECT_EQ(numbers(run({floats({1}, {3}, DType::kFloat16)}, product)), Numbers{expected});
}

TEST(Interpret, BroadcastsAndSelects) {
  const PlainTensor x = floats({2, 1}, {1, 2}), y = floats({3}, {10, 20, 30});
  EXPECT_EQ(numbers(run({x, y}, [](Builder&, auto& v) { return v[0] + v[1]; })), (Numbers{11, 21, 31, 12, 22, 32}));
  EXPECT_EQ(numbers(run({x, y}, [](Builder&, auto& v) { return where(v[0] > 1.5, v[1], -1.0); })),
            (Numbers{-1, -1, -1, 10, 20, 30}));
}

TEST(Interpret, Reductions) {
  const PlainTensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto reduce = [](ReduceKind kind, int axis, Dim chunk) {
    return [=](Builder& b, auto& v) { return b.reduce_axis(kind, v[0], axis, chunk); };
  };
  EXPECT_EQ(numbers(run({x}, reduce(ReduceKind::kSum, 1, 0))), (Numbers{6, 15}));
  EXPECT_EQ(numbers(run({x}, reduce(ReduceKind::kProd, 0, 0))), (Numbers{4, 10, 18}));
  EXPECT_EQ(numbers(run({x}, reduce(ReduceKind::kMax, 1, 2))), (Numbers{2, 3, 5, 6}));
  EXPECT_EQ(numbers(run({floats({0, 2}, {})}, reduce(ReduceKind::kMin, 0, 0))), (Numbers{kInf, kInf}));
  EXPECT_EQ(numbers(run({ints({2}, {kMax64, 1})}, reduce(ReduceKind::kSum, 0, 0))),
            Numbers{static_cast<double>(kMin64)});
  EXPECT_EQ(numbers(run({ints({0}, {}, DType::kInt32)}, reduce(ReduceKind::kMax, 0, 0))), Numbers{-2147483648.0});
  const PlainTensor flags = ints({2, 2}, {0, 1, 0, 0}, DType::kBool);
  EXPECT_EQ(numbers(run({flags}, reduce(ReduceKind::kAny, 1, 0))), (Numbers{1, 0}));
  EXPECT_EQ(numbers(run({flags}, reduce(ReduceKind::kAll, 0, 0))), (Numbers{0, 0}));
  EXPECT_EQ(numbers(run({x}, [](Builder&, auto& v) { return mean(v[0], {}, false); })), Numbers{3.5});
}

TEST(Interpret, Products) {
  const PlainTensor a = floats({1, 2, 2}, {1, 2, 3, 4}), c = floats({1, 2, 2}, {5, 6, 7, 8});
  EXPECT_EQ(numbers(run({a, c}, [](Builder& b, auto& v) { return b.dot(v[0], v[1], DType::kFloat32); })),
            (Numbers{19, 22, 43, 50}));
  const PlainTensor f = ints({1, 2}, {1, 0}, DType::kBool), h = ints({2, 2}, {1, 0, 1, 1}, DType::kBool);
  EXPECT_EQ(numbers(run({f, h}, [](Builder& b, auto& v) { return b.dot(v[0], v[1], DType::kBool); })), (Numbers{1, 0}));
}

TEST(Interpret, Movement) {
  const PlainTensor x = ints({2, 3}, {0, 1, 2, 3, 4, 5});
  const auto same = [&](auto f, Dims shape, Numbers expected) {
    const PlainTensor out = run({x}, f);
    EXPECT_EQ(out.shape, shape);
    EXPECT_EQ(numbers(out), expected);
  };
  same([](Builder& b, auto& v) { return b.permute(v[0], {1, 0}); }, {3, 2}, {0, 3, 1, 4, 2, 5});
  same([](Builder& b, auto& v) { return b.slice(v[0], 1, 0, 3, 2); }, {2, 2}, {0, 2, 3, 5});
  same([](Builder& b, auto& v) { return b.flip(v[0], {0, 1}); }, {2, 3}, {5, 4, 3, 2, 1, 0});
  same([](Builder& b, auto& v) { return b.pad(v[0], {0, 1}, {1, 0}, 9); }, {3, 4},
       {9, 0, 1, 2, 9, 3, 4, 5, 9, 9, 9, 9});
  same([](Builder& b, auto& v) { return b.cat({v[0], b.flip(v[0], {0})}, 1); }, {2, 6},
       {0, 1, 2, 3, 4, 5, 3, 4, 5, 0, 1, 2});
  same([](Builder& b, auto& v) { return b.expand(b.reshape(v[0], {2, 1, 3}), {2, 2, 3}); }, {2, 2, 3},
       {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
  same([](Builder& b, auto& v) { return b.iota(v[0].shape(), 1); }, {2, 3}, {0, 1, 2, 0, 1, 2});
}

TEST(Interpret, IndexingClampsAndDrops) {
  const PlainTensor x = ints({3, 2}, {0, 1, 10, 11, 20, 21});
  const PlainTensor at = ints({4}, {-1, 0, 7, -9}, DType::kInt32);
  EXPECT_EQ(numbers(run({x, at}, [](Builder& b, auto& v) { return b.take(v[0], v[1], 0); })),
            (Numbers{0, 1, 0, 1, 20, 21, 0, 1}));
  const PlainTensor source = ints({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(numbers(run({x, at, source}, [](Builder& b, auto& v) { return b.scatter_add(v[0], v[1], v[2], 0); })),
            (Numbers{3, 5, 10, 11, 20, 21}));
  const PlainTensor along = ints({3, 2}, {0, 1, 1, 1, -2, 5});
  EXPECT_EQ(numbers(run({x, along}, [](Builder& b, auto& v) { return b.take_along(v[0], v[1], 1); })),
            (Numbers{0, 1, 11, 11, 20, 21}));
  EXPECT_EQ(numbers(run({x, along, x}, [](Builder& b, auto& v) { return b.scatter_add_along(v[0], v[1], v[2], 1); })),
            (Numbers{0, 2, 10, 32, 20, 21}));
}

TEST(Interpret, RandomBitsFollowTheBlocks) {
  Graph g;
  Builder b(g);
  g.outputs = {b.random_bits({2, 3}, b.parameter(0, Category::kInt), b.constant(5)).id};
  const uint64_t seed = 42;
  const PlainTensor out = interpret(g, {}, {&seed, 1})[0];
  for (int i = 0; i < 6; ++i) EXPECT_EQ(out.elements[i].to_int(), reference::philox(5 + i / 4, 0, 42).word[i % 4]) << i;
}

TEST(Interpret, OpsByTheirDecomposition) {
  // cross_entropy of two rows, against the formula.
  const PlainTensor logits = floats({2, 3}, {1, 2, 3, 0, 0, 5}), target = ints({2}, {2, 0});
  const PlainTensor* inputs[] = {&logits, &target, nullptr};
  const int64_t attrs[] = {-100, 1, 0};  // ignore_index, reduction mean, no smoothing
  const double first = std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0)) - 3;
  const double second = std::log(2 + std::exp(5.0));
  EXPECT_NEAR(interpret(Op::kCrossEntropy, inputs, attrs)[0].elements[0].to_double(), (first + second) / 2, 1e-6);
}

TEST(Interpret, OtherSizesThanTheSample) {
  Graph g;
  Builder b(g);
  const Dim n = g.sym.symbol(100);
  const Value x = b.leaf(0, DType::kFloat32, {n, 2});
  g.outputs = {mean(x, {0}, false).id, b.reshape(x, {g.sym.mul(n, 2)}).id};
  const PlainTensor leaf = floats({3, 2}, {1, 2, 3, 4, 5, 9});
  const int64_t symbols[] = {3};
  const std::vector<PlainTensor> out = interpret(g, {&leaf, 1}, {}, symbols);
  EXPECT_EQ(numbers(out[0]), (Numbers{3, 5}));
  EXPECT_EQ(out[1].shape, Dims({6}));
  EXPECT_THROW(interpret(g, {&leaf, 1}), ValueError);  // the sample has 100 rows
}

TEST(Interpret, MemoryRoundTrip) {
  const std::vector<uint16_t> halves = {0x3c00, 0x8000, 0x7c00, 0x0001};
  const PlainTensor t = PlainTensor::from_memory(halves.data(), DType::kFloat16, {4});
  EXPECT_EQ(numbers(t), (Numbers{1, -0.0, kInf, 0x1p-24}));
  std::vector<uint16_t> back(4);
  t.to_memory(back.data());
  EXPECT_EQ(back, halves);
}

}  // namespace
}  // namespace smolder::ir
