// Plans give the same bits fused and one kernel a primitive, at every size, and what the reference gives.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "jit/plan_test_util.h"
#include "smolder/jit/fuse/fuse.h"
#include "smolder/jit/graph/decompose.h"
#include "smolder/jit/plan/plan_impl.h"

namespace smolder::jit {
namespace {

using ir::Dim;
using ir::ReduceKind;
using ir::Value;

Value sum(PlanTest& t, Value x, std::vector<int> axes, bool keep = false) {
  return t.b.reduce(ReduceKind::kSum, x, axes, keep);
}
Value max(PlanTest& t, Value x, std::vector<int> axes, bool keep = false) {
  return t.b.reduce(ReduceKind::kMax, x, axes, keep);
}

TEST(Plan, ElementwiseChain) {
  PlanTest t;
  const auto n = t.size(37), m = t.size(50);
  const Value x = t.input({n, m}), y = t.input({n, m});
  t.output(exp(x * y) + 0.5 * tanh(x - y));
  t.check(1e-5, {{3, 4}, {64, 64}, {1000, 7}});
  EXPECT_EQ(t.count().kernels, 1);
}

TEST(Plan, BroadcastBias) {
  PlanTest t;
  const auto n = t.size(9), m = t.size(33);
  const Value x = t.input({n, m}), bias = t.input({m}), scale = t.input({n, 1});
  t.output(relu(x + bias) * scale);
  t.check(1e-6, {{2, 3}, {40, 40}});
  EXPECT_EQ(t.count().kernels, 1);
}

TEST(Plan, Softmax) {
  PlanTest t;
  const auto n = t.size(7), m = t.size(70);
  const Value x = t.input({n, m});
  const Value e = exp(x - max(t, x, {1}, true));
  t.output(e / sum(t, e, {1}, true));
  t.check(1e-5, {{2, 3}, {33, 33}, {5, 1000}});
  EXPECT_EQ(t.count().kernels, 1);
}

TEST(Plan, SoftmaxOfFourDims) {
  PlanTest t;
  const auto b = t.size(2), h = t.size(3), q = t.size(5), k = t.size(20);
  const Value x = t.input({b, h, q, k}), mask = t.input({q, k});
  const Value s = x * 0.125 + mask;
  const Value e = exp(s - max(t, s, {3}, true));
  t.output(e / sum(t, e, {3}, true));
  t.check(1e-5, {{3, 2, 4, 4}, {2, 2, 2, 2}});
  EXPECT_EQ(t.count().kernels, 1);
}

TEST(Plan, CostlyRowsAreKeptBetweenPhases) {
  for (const DType d : {DType::kFloat32, DType::kBFloat16}) {
    PlanTest t;
    const auto n = t.size(40), m = t.size(70);
    const Value x = t.b.cast(t.input({n, m}, d), DType::kFloat32);
    const Value e = exp(x - max(t, x, {1}, true));
    const Value p = e / sum(t, e, {1}, true);
    // With a half output the kept row has no output to live in.
    t.output(t.b.cast(p, d));
    t.check(1e-2, {{3, 3}, {700, 33}});
    const auto plan = t.compile();
    const auto& step = dynamic_cast<const PlanImpl&>(*plan).program().steps[0];
    EXPECT_EQ(step.kernel->scratch.size(), d == DType::kFloat32 ? 0u : 1u);
    const std::string text = print(step.kernel->kernel);
    EXPECT_EQ(text.find(" = exp "), text.rfind(" = exp ")) << text;
  }
}

std::string kernel_text(const Plan& plan, int step = 0) {
  return print(dynamic_cast<const PlanImpl&>(plan).program().steps[step].kernel->kernel);
}

TEST(Plan, LargeOutputsAreStreamed) {
  PlanTest t;
  const auto n = t.size(4099), m = t.size(1024);
  const Value x = t.input({n, m});
  const Value e = exp(x - max(t, x, {1}, true));
  t.output(e / sum(t, e, {1}, true));
  const auto plan = t.compile();
  const std::string text = kernel_text(*plan);
  EXPECT_NE(text.find("stream"), std::string::npos) << text;
  // Streamed stores are not read back: the exponentials have a row of their own.
  EXPECT_EQ(dynamic_cast<const PlanImpl&>(*plan).program().steps[0].kernel->scratch.size(), 1u);
  // Smaller sizes are another plan's.
  EXPECT_EQ(plan->bind(std::vector<int64_t>{4000, 1024}), nullptr);
  EXPECT_NE(plan->bind(std::vector<int64_t>{4096, 1024}), nullptr);
  // Rows that do not begin where cache lines do, too.
  t.check_bits({{4100, 1027}});
}

TEST(Plan, LargeOutputsInPlaceAreRight) {
  PlanTest t;
  const int64_t sample = 5 << 20;
  const auto n = t.size(sample);
  t.output(t.input({n}) * 2.0 + 1.0);
  const auto instance = t.compile()->bind(std::vector<int64_t>{sample});
  std::vector<float> x(sample);
  for (int64_t i = 0; i < sample; ++i) x[i] = static_cast<float>(i % 1000);
  void* address = x.data();
  instance->run({.leaves = {&address, 1}, .parameters = {}, .outputs = {&address, 1}});
  for (int64_t i = 0; i < sample; ++i) ASSERT_EQ(x[i], static_cast<float>(i % 1000) * 2 + 1) << i;
}

TEST(Plan, OutputsThatACacheHoldsAreNotStreamed) {
  PlanTest t;
  const auto n = t.size(4000), m = t.size(1024);
  t.output(t.input({n, m}) * 2.0);
  const auto plan = t.compile();
  EXPECT_EQ(kernel_text(*plan).find("stream"), std::string::npos);
  EXPECT_EQ(plan->bind(std::vector<int64_t>{4096, 1024}), nullptr);
}

TEST(Plan, LayerNormForward) {
  PlanTest t;
  const auto n = t.size(6), c = t.size(40);
  const Value x = t.input({n, c}), w = t.input({c}), b = t.input({c}), residual = t.input({n, c});
  const Value h = x + residual;
  const Value mean = sum(t, h, {1}, true) / t.b.number(c);
  const Value centred = h - mean;
  const Value rstd = rsqrt(sum(t, centred * centred, {1}, true) / t.b.number(c) + 1e-5);
  t.output(h);
  t.output(mean);
  t.output(rstd);
  t.output(centred * rstd * w + b);
  t.check(1e-5, {{3, 3}, {100, 8}});
  EXPECT_EQ(t.count().kernels, 1);
}

TEST(Plan, LayerNormBackward) {
  PlanTest t;
  const auto n = t.size(300), c = t.size(24);
  const Value x = t.input({n, c}), dy = t.input({n, c}), w = t.input({c}), mean = t.input({n, 1}),
              rstd = t.input({n, 1}, DType::kFloat32, 0.5, 1.5);
  const Value xhat = (x - mean) * rstd, dyw = dy * w;
  const Value c1 = sum(t, dyw, {1}, true) / t.b.number(c), c2 = sum(t, dyw * xhat, {1}, true) / t.b.number(c);
  t.output((dyw - c1 - xhat * c2) * rstd);
  t.output(sum(t, dy * xhat, {0}));
  t.output(sum(t, dy, {0}));
  t.check(1e-5, {{129, 5}, {1000, 3}});
  EXPECT_LE(t.count().kernels, 3);
}

TEST(Plan, SumsOfAGradientOfEqualShapeAreOneKernel) {
  // The gradient has sizes of its own, equal by guards alone. It is read by what is made of both, and on its own.
  PlanTest t;
  const auto n = t.size(300), c = t.size(24), m = t.size(300), d = t.size(24);
  const Value x = t.input({n, c}), dy = t.input({m, d});
  const Value centred = x - sum(t, x, {1}, true) / t.b.number(c);
  t.output(dy * centred - sum(t, dy, {1}, true));
  t.output(sum(t, dy * centred, {0}));
  t.output(sum(t, dy, {0}));
  t.check(1e-5, {{129, 5, 129, 5}});
  EXPECT_EQ(t.count().kernels, 3);
  EXPECT_EQ(t.count().distinct, 2);
}

TEST(Plan, CrossEntropyForwardBackward) {
  PlanTest t;
  const auto n = t.size(12), c = t.size(10);
  const Value x = t.input({n, c}), target = t.input({n}, DType::kInt64, 0, 10), scale = t.input({}, DType::kFloat32);
  const Value m = max(t, x, {1}, true);
  const Value lse = log(sum(t, exp(x - m), {1}, true)) + m;
  const Value logp = x - lse;
  const Value picked = t.b.take_along(logp, t.b.reshape(target, {n, 1}), 1);
  t.output(neg(sum(t, picked, {0, 1})) / t.b.number(n));
  const Value onehot = t.b.cast(eq(t.b.iota({n, c}, 1), t.b.reshape(target, {n, 1})), DType::kFloat32);
  t.output((exp(logp) - onehot) * scale);
  t.check(1e-5, {{40, 10}, {3, 12}});
  EXPECT_LE(t.count().kernels, 2);
}

TEST(Plan, AWayOverAKernelOfDistantPartsIsSeen) {
  // The column sums s and q read y and become one kernel. A kernel of a, t and b would need s for b, and be needed for
  // q by way of u, which begins after b.
  PlanTest t;
  const auto n = t.size(40), m = t.size(33);
  const Value y = t.input({n, m}), x = t.input({n, m});
  const Value a = tanh(x), column = sum(t, a, {0}, true), s = sum(t, y, {0}, true), b = x + s;
  const Value u = exp(column * 0.1), q = sum(t, y * u, {0}, true);
  for (const Value v : {a, column, s, b, u, q}) t.output(v);
  t.check(1e-5, {{3, 3}, {100, 8}});
}

TEST(Plan, ColumnSum) {
  PlanTest t;
  const auto n = t.size(300), m = t.size(20);
  const Value x = t.input({n, m});
  t.output(sum(t, x * x, {0}));
  t.check(1e-5, {{129, 3}, {5000, 17}});
  EXPECT_EQ(t.count().kernels, 2);
}

TEST(Plan, ShortColumnSumWithProducerOutput) {
  PlanTest t;
  const auto n = t.size(32), m = t.size(70);
  const Value dy = t.input({n, m}), h = t.input({n, m});
  const Value dx = where(h > 0.0, dy, 0.0);
  t.output(dx);
  t.output(sum(t, dx, {0}));
  t.check(1e-5, {{2, 3}, {128, 2000}});
  EXPECT_EQ(t.count().kernels, 1);
}

TEST(Plan, MiddleAxisAndSeveralAxes) {
  PlanTest t;
  const auto a = t.size(4), b = t.size(140), c = t.size(6), d = t.size(5);
  const Value x = t.input({a, b, c, d});
  t.output(sum(t, x, {1}));
  t.output(sum(t, x, {1, 2}));
  t.output(max(t, x * 2.0, {0, 2}));
  t.output(sum(t, exp(x), {0, 1, 2, 3}));
  t.output(sum(t, x, {0, 3}, true));
  t.check(1e-4, {{2, 129, 3, 2}, {5, 300, 2, 2}});
}

TEST(Plan, LongRowsAreChunked) {
  PlanTest t;
  const auto n = t.size(140000);
  const Value x = t.input({n});
  t.output(sum(t, x * x, {0}));
  t.check(1e-5, {{131073}, {200000}});
}

TEST(Plan, ReductionsOfEveryKind) {
  PlanTest t;
  const auto n = t.size(5), m = t.size(40);
  const Value x = t.input({n, m}, DType::kFloat32, 0.5, 1.5), i = t.input({n, m}, DType::kInt32, -100, 100);
  for (const ReduceKind k : {ReduceKind::kSum, ReduceKind::kProd, ReduceKind::kMax, ReduceKind::kMin}) {
    t.output(t.b.reduce(k, x, {1}, false));
    t.output(t.b.reduce(k, x, {0}, false));
    t.output(t.b.reduce(k, i, {1}, false));
    t.output(t.b.reduce(k, i, {0}, false));
  }
  for (const ReduceKind k : {ReduceKind::kAny, ReduceKind::kAll}) {
    t.output(t.b.reduce(k, x > 1.0, {1}, false));
    t.output(t.b.reduce(k, x > 1.0, {0}, false));
  }
  t.check(1e-4, {{3, 3}, {128, 33}});
}

TEST(Plan, AStackIsReducedAsItsTensors) {
  for (const int64_t tensors : {2, 5, 12, 16, 17}) {
    PlanTest p;
    const Dim a = p.size(9), b = p.size(40);
    std::vector<Value> first, last;
    for (int64_t i = 0; i < tensors; ++i) {
      const Value x = p.input({a, b}, DType::kFloat32, 0.5, 1.5);
      first.push_back(p.b.reshape(x, {1, a, b}));
      last.push_back(p.b.reshape(x, {a, b, 1}));
    }
    const Value columns = p.b.cat(first, 0), rows = p.b.cat(last, 2);
    for (const ReduceKind k : {ReduceKind::kSum, ReduceKind::kProd, ReduceKind::kMax, ReduceKind::kMin}) {
      p.output(p.b.reduce(k, columns, {0}, false));
      p.output(p.b.reduce(k, rows, {2}, false));
    }
    p.output(p.b.reduce(ReduceKind::kSum, p.b.cast(exp(columns), DType::kFloat64), {0}, true));
    p.check(1e-4, {{8, 33}, {70, 64}});
  }
}

TEST(Plan, ReduceExtentsOneAndZero) {
  PlanTest t;
  const auto n = t.size(5), one = t.size(1), zero = t.size(0);
  const Value x = t.input({n, one}), empty = t.input({zero, n});
  t.output(sum(t, x, {1}));
  t.output(max(t, x, {1}) * 2.0);
  t.output(sum(t, empty, {0}));
  t.output(exp(empty));
  t.output(sum(t, x, {0, 1}));
  t.check(1e-6, {{7, 1, 0}});
}

TEST(Plan, ReshapedOperandsWithoutElementsOfAProduct) {
  PlanTest t;
  const auto zero = t.size(0), n = t.size(3), k = t.size(4), m = t.size(5);
  const Value x = t.input({zero, n, k}), g = t.input({zero, n, m});
  const auto rows = [&](Value v) { return t.b.reshape(v, {t.g.sym.mul(zero, n), v.size(-1)}); };
  t.output(t.b.dot(t.b.transpose(rows(x), 0, 1), rows(g), DType::kFloat32));
  t.check(1e-6, {{0, 7, 2, 3}});
}

TEST(Plan, Movement) {
  PlanTest t;
  const auto a = t.size(3), b = t.size(4), c = t.size(10);
  const Value x = t.input({a, b, c});
  t.output(t.b.permute(exp(x), {2, 0, 1}));
  t.output(t.b.flip(x, {0, 2}) * x);
  t.output(t.b.slice(tanh(x), 2, 1, t.g.sym.sub(c, 2), 3));
  t.output(t.b.pad(x * 2.0, {1, 0, 2}, {0, 2, 1}, Scalar(1.5)));
  t.output(t.b.cat({x, x * 3.0, t.b.slice(x, 1, 1, b)}, 1));
  t.output(t.b.reshape(t.b.permute(x, {1, 0, 2}), {b, t.g.sym.mul(a, c)}) + 1.0);
  t.output(t.b.reshape(x, {t.g.sym.mul(a, b), c}));
  t.check(1e-5, {{2, 2, 5}, {5, 3, 8}});
}

TEST(Plan, ReversedRowsAreRightAroundVectors) {
  for (const DType t : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kInt8, DType::kInt64}) {
    PlanTest p;
    const Dim rows = p.size(3), columns = p.size(37);
    const Value x = p.input({rows, columns}, t);
    p.output(p.b.flip(x, {1}));
    p.output(p.b.flip(x, {0, 1}));
    p.output(p.b.cat({p.b.flip(x, {1}), p.b.elementwise(ir::Op::kAbs, {x})}, 1));
    p.output(p.b.pad(p.b.flip(x, {1}), {1, 20}, {0, 35}, Scalar(int64_t{3})));
    p.check(1e-5, {{2, 16}, {3, 31}, {1, 64}, {5, 2}, {2, 515}});
  }
}

TEST(Plan, ACatOfLeavesIsCopiedPartByPart) {
  PlanTest p;
  const Dim a = p.size(5), b = p.size(40);
  const Value x = p.input({a, b}), y = p.input({a, b}), z = p.strided_input({a, b}, {1, a}, 0, 1000);
  p.output(p.b.cat({x, y, z}, 1));
  p.output(p.b.cat({x, p.b.slice(y, 0, 1, a)}, 0));
  p.output(p.b.reshape(p.b.cat({y, p.b.slice(x, 1, 2, b)}, 1), {p.g.sym.mul(a, p.g.sym.add(b, p.g.sym.sub(b, 2)))}));
  p.check(0, {{2, 17}, {7, 90}});
  EXPECT_EQ(p.count().library, 3);
  EXPECT_EQ(p.count().kernels, 0);
}

TEST(Plan, WhatIsCastForACatIsCopiedFirst) {
  for (const bool same : {true, false}) {
    PlanTest p;
    const Dim a = p.size(20), b = p.size(40);
    std::vector<Value> parts;
    for (int i = 0; i < 3; ++i) {
      const Value x = p.input({a, b}, same || i > 0 ? DType::kBFloat16 : DType::kFloat16);
      parts.push_back(p.b.reshape(p.b.cast(x, DType::kFloat32), {p.g.sym.mul(a, b)}));
    }
    // A kernel computes a small part, and stores what it is cast from.
    const Value small = p.input({b}, DType::kBFloat16);
    parts.push_back(p.b.cast(small + small, DType::kFloat32));
    p.output(p.b.cat(parts, 0));
    p.check(0, {{7, 33}, {90, 50}});
    EXPECT_EQ(p.count().library, same ? 1 : 0);
  }
}

TEST(Plan, PartsOfALargeCatAreStoredAndCopied) {
  for (const int64_t rows : {5, 500}) {
    PlanTest p;
    const Dim a = p.size(rows), b = p.size(40);
    const Value x = p.input({a, b});
    std::vector<Value> parts, elements;
    for (int i = 0; i < 5; ++i) {
      parts.push_back(x * static_cast<double>(i));
      elements.push_back(p.b.reshape(x + static_cast<double>(i), {a, b, 1}));
    }
    p.output(p.b.cat({parts[1], parts[2], parts[3]}, 1));
    p.output(p.b.cat(elements, 2));
    p.check(1e-6, {{7, 33}, {900, 50}});
    EXPECT_EQ(p.count().library, rows == 5 ? 0 : 2);
  }
}

TEST(Plan, ACatThatAKernelHasAUseForIsOneKernel) {
  PlanTest p;
  const Dim a = p.size(5), b = p.size(40), few = p.size(4);
  const Value x = p.input({a, b}), y = p.input({a, b}), narrow = p.input({a, few});
  p.output(exp(p.b.cat({x, y}, 1)));       // which nobody keeps
  p.output(p.b.cat({exp(x), y}, 0));       // of what is computed
  p.output(p.b.cat({narrow, narrow}, 1));  // of rows too short for calls
  p.check();
  EXPECT_EQ(p.count().library, 0);
}

TEST(Plan, ReshapeMergesWithBroadcast) {
  PlanTest t;
  const auto b = t.size(3), s = t.size(70), c = t.size(8);
  const Value x = t.input({b, s, c}), position = t.input({s, c}), row = t.input({b, 1, 1});
  const Value h = x * row + position;
  const Value flat = t.b.reshape(h, {t.g.sym.mul(b, s), c});
  t.output(flat * flat);
  t.output(sum(t, flat, {0}));
  t.output(sum(t, t.b.permute(h, {1, 0, 2}), {0, 1}));
  t.check(1e-4, {{2, 65, 3}, {4, 100, 2}});
}

TEST(Plan, StridedLeaves) {
  PlanTest t;
  const auto n = t.size(6), m = t.size(5);
  const Value x = t.strided_input({n, m}, {1, n}, 0, 10000), y = t.input({n, m});
  const Value z = t.strided_input({n, m}, {t.g.sym.mul(m, 2), 2}, 3, 10000);
  t.output(x + y * z);
  t.output(t.b.reshape(x, {t.g.sym.mul(n, m)}));
  t.output(sum(t, x, {0, 1}));
  t.output(x);
  t.check(1e-5, {{3, 3}, {20, 30}});
}

TEST(Plan, TakeAndGather) {
  PlanTest t;
  const auto v = t.size(11), c = t.size(6), n = t.size(9);
  const Value table = t.input({v, c}), index = t.input({n}, DType::kInt32, 0, 5), scale = t.input({c});
  t.output(t.b.take(table, index, 0) * scale);
  t.output(t.b.take(t.b.permute(table, {1, 0}), index, 1));
  const Value which = t.input({n, c}, DType::kInt64, 0, 5);
  t.output(t.b.take_along(exp(table), t.b.slice(which, 0, 0, n), 0));
  t.check(1e-5, {{7, 2, 7}, {30, 3, 30}});
}

TEST(Plan, BadIndexIsReported) {
  PlanTest t;
  const auto v = t.size(4), n = t.size(9);
  const Value table = t.input({v}), index = t.input({n}, DType::kInt64, 4, 6);
  t.b.set_origin({77, {}});
  t.output(t.b.take(table, index, 0));
  const auto result = t.run();
  ASSERT_EQ(result.reports.size(), 1u);
  EXPECT_EQ(result.reports[0].source, 77u);
  EXPECT_EQ(result.reports[0].op, "take");
}

TEST(Plan, NumbersAreNotInTheKernel) {
  PlanTest t;
  const auto n = t.size(100);
  const Value x = t.input({n}), beta = t.number(0.9), step = t.number(3.0);
  t.output(x * (1.0 - pow(beta, step)) + t.b.number(n));
  t.output(t.b.cast(beta, DType::kFloat32));
  t.check(1e-6, {{5}});
}

TEST(Plan, Halves) {
  PlanTest t;
  const auto n = t.size(13), m = t.size(40);
  for (const DType d : {DType::kBFloat16, DType::kFloat16}) {
    const Value x = t.input({n, m}, d), y = t.input({n, m}, d);
    t.output(x * y + 0.1);
    t.output(t.b.cast(sum(t, t.b.cast(x, DType::kFloat32), {1}), d));
    t.output(max(t, x, {1}));
    t.output(max(t, y, {0}));
    t.output(t.b.cast(sum(t, t.b.cast(y, DType::kFloat32), {0}), d));
  }
  t.check(1e-2, {{3, 3}, {100, 2}});
}

TEST(Plan, HalvesAreSummedBesideAProductWithoutABias) {
  PlanTest t;
  const Dim m = t.size(5);
  const Value x = t.input({m, 8}, DType::kFloat16), a = t.input({m, 8}), b = t.input({8, 3});
  t.output(t.b.reduce_axis(ir::ReduceKind::kSum, x, 1));
  t.output(t.b.dot(a, b, DType::kFloat32));
  const PlanTest::Count count = t.count();
  EXPECT_EQ(count.kernels, 1);
  EXPECT_EQ(count.library, 1);
}

TEST(Plan, RandomBitsDoNotDependOnFusion) {
  PlanTest t;
  const auto n = t.size(30), m = t.size(7);
  const Value seed = t.number(Scalar(int64_t{1234})), offset = t.number(Scalar(int64_t{5}));
  const Value x = t.input({n, m});
  const Value bits = t.b.random_bits({n, m}, seed, offset);
  const Value mask = lt(bits, 2147483648.0);
  t.output(where(mask, x * 2.0, 0.0));
  t.output(where(mask, t.input({n, m}), 0.0));
  t.check(1e-6, {{3, 3}});
}

TEST(Plan, MlpStep) {
  PlanTest t;
  const auto n = t.size(16), i = t.size(12), h = t.size(20), o = t.size(10);
  const Value x = t.input({n, i}), w1 = t.input({h, i}), b1 = t.input({h}), w2 = t.input({o, h}), b2 = t.input({o});
  const Value lr = t.number(0.1);
  const Value z = t.b.dot(x, t.b.permute(w1, {1, 0}), DType::kFloat32) + b1;
  const Value a = relu(z);
  const Value y = t.b.dot(a, t.b.permute(w2, {1, 0}), DType::kFloat32) + b2;
  const Value target = t.input({n, o});
  const Value d = y - target;
  t.output(sum(t, d * d, {0, 1}) / t.b.number(n));
  const Value dy = d * 2.0;
  const Value dw2 = t.b.dot(t.b.permute(dy, {1, 0}), a, DType::kFloat32), db2 = sum(t, dy, {0});
  const Value da = t.b.dot(dy, w2, DType::kFloat32);
  const Value dz = where(z > 0.0, da, 0.0);
  const Value dw1 = t.b.dot(t.b.permute(dz, {1, 0}), x, DType::kFloat32), db1 = sum(t, dz, {0});
  t.output(w1 - lr * dw1);
  t.output(b1 - lr * db1);
  t.output(w2 - lr * dw2);
  t.output(b2 - lr * db2);
  t.check(1e-4, {{7, 3, 5, 4}, {100, 8, 8, 8}});
}

TEST(Plan, AProductAddsItsBiasAndTakesRelu) {
  for (const DType t : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
    for (const bool relu : {false, true}) {
      // Products that underflow are -0, and so are sums of them and of such a bias; relu keeps that.
      for (const double scale : {2.0, 1e-25, 1e-200}) {
        PlanTest p;
        const Dim rows = p.size(13), depth = p.size(40), columns = p.size(21);
        const Value x = p.input({rows, depth}, t, -scale, scale), w = p.input({columns, depth}, t, 0, scale);
        const Value bias = p.input({columns}, t, -scale, scale);
        const Value sum = p.b.dot(x, p.b.permute(w, {1, 0}), t) + p.b.expand(bias, {rows, columns});
        p.output(relu ? ir::relu(sum) : sum);
        p.check(is_half(t) ? 2e-2 : 1e-5, {{1, 40, 21}, {40, 700, 100}, {3, 2, 50}});
        const PlanTest::Count count = p.count();
        EXPECT_EQ(count.library, 1);
        EXPECT_EQ(count.kernels, is_half(t) ? 1 : 0);  // halves are rounded before the bias is added
      }
    }
  }
}

TEST(Plan, AProductWithABiasTakesRelu) {
  for (const DType t : {DType::kFloat32, DType::kBFloat16}) {
    PlanTest p;
    const Dim rows = p.size(14), depth = p.size(40), columns = p.size(21);
    const Value x = p.input({rows, depth}, t), w = p.input({depth, columns}, t), bias = p.input({columns}, t);
    p.output(ir::relu(p.b.reshape(p.b.dot(x, w, t, bias), {1, rows, columns})));
    p.check(is_half(t) ? 2e-2 : 1e-5, {{2, 40, 21}, {40, 700, 100}, {4, 2, 50}});
    EXPECT_EQ(p.count().library, 1);
    EXPECT_EQ(p.count().kernels, 0);
  }
}

TEST(Plan, AProductsBiasMayLieAnyhow) {
  PlanTest p;
  const Dim rows = p.size(14), columns = p.size(21);
  const Value x = p.input({rows, rows}), w = p.input({rows, columns}), all = p.input({columns, 3});
  const Value bias = p.b.reshape(p.b.slice(all, 1, 1, 2), {columns});
  p.output(ir::relu(p.b.dot(x, w, DType::kFloat32, bias)));
  p.output(p.b.dot(x, w, DType::kFloat32, p.b.flip(bias, {0})));
  p.check();
}

TEST(Plan, AProductThatOthersReadTooIsWrittenAsItIs) {
  PlanTest p;
  const Dim rows = p.size(13), columns = p.size(21);
  const Value x = p.input({rows, columns}), w = p.input({columns, columns}), bias = p.input({columns});
  const Value sums = p.b.dot(x, w, DType::kFloat32);
  p.output(sums + p.b.expand(bias, {rows, columns}));
  p.output(p.b.dot(sums, w, DType::kFloat32));
  p.check();
  EXPECT_EQ(p.count().kernels, 1);
}

/// By output, the leaf whose memory it takes where nobody else holds any.
std::map<int, int> donors_of(const Plan& plan) {
  std::map<int, int> donors;
  std::set<int> taken;
  for (const Donation& d : plan.donations()) {
    if (!donors.contains(d.output) && taken.insert(d.leaf).second) donors[d.output] = d.leaf;
  }
  return donors;
}

TEST(Plan, OptimizerOverManyTensorsIsOneLaunch) {
  PlanTest t;
  const Value lr = t.number(1e-3), b1 = t.number(0.9), b2 = t.number(0.999), eps = t.number(1e-8), wd = t.number(0.01),
              step = t.number(3.0);
  for (int i = 0; i < 20; ++i) {
    const ir::SymDims shape = i % 2 ? ir::SymDims{t.size(5 + i)} : ir::SymDims{t.size(3 + i), t.size(40 - i)};
    const Value p = t.input(shape), g = t.input(shape), m = t.input(shape), v = t.input(shape, DType::kFloat32, 0, 2);
    const Value m2 = m + (g - m) * (1.0 - b1), v2 = v * b2 + g * g * (1.0 - b2);
    const Value denominator = sqrt(v2) / sqrt(1.0 - pow(b2, step)) + eps;
    t.output(p * (1.0 - lr * wd) - lr / (1.0 - pow(b1, step)) * (m2 / denominator));
    t.output(m2);
    t.output(v2);
  }
  t.check(1e-5);
  const auto count = t.count();
  EXPECT_EQ(count.kernels, 20);
  EXPECT_EQ(count.distinct, 1);
  EXPECT_EQ(count.launches, 1);
  // p, m and v are updated in place, each its own.
  const std::map<int, int> donors = donors_of(*t.compile());
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(donors.at(3 * i), 4 * i);
    EXPECT_EQ(donors.at(3 * i + 1), 4 * i + 2);
    EXPECT_EQ(donors.at(3 * i + 2), 4 * i + 3);
  }
}

TEST(Plan, AGradientThatIsKeptTakesNoMemoryOfWhatIsUpdated) {
  PlanTest t;
  const ir::SymDims shape{t.size(7)};
  const Value p = t.input(shape), half = t.input(shape, DType::kBFloat16), m = t.input(shape);
  const Value grad = t.b.cast(half, DType::kFloat32), m2 = m * 0.9 + grad;
  t.output(grad);
  t.output(p - m2 * 0.1);
  t.output(m2);
  t.check();
  EXPECT_EQ(donors_of(*t.compile()), (std::map<int, int>{{1, 0}, {2, 2}}));
}

/// Compilers of devices take long for what the CPU's makes in no time.
TEST(Plan, KernelsAreShorterOnDevices) {
  for (const auto& [device, groups] : {std::pair(DeviceType::kCPU, 1u), {DeviceType::kCUDA, 4u}}) {
    PlanTest t;
    const Value x = t.input({t.size(100)});
    Value y = x;
    for (int i = 0; i < 100; ++i) y = y * 0.5 + x;
    t.output(y);
    Program p;
    p.graph = t.g;
    p.options.device = device;
    decompose(p);
    fuse(p);
    EXPECT_EQ(p.groups.size(), groups);
  }
}

/// A launch there moves as much as 5 MB, and no more than that is computed to spare it. Halves become float32 as they
/// are loaded.
TEST(Plan, WhatIsSmallIsMadeAgainOnDevices) {
  struct Case {
    DeviceType device;
    DType weights;
    int64_t rows;
    size_t groups;
  };
  constexpr DType kInts = DType::kInt32, kHalves = DType::kBFloat16;
  for (const auto& [device, weights, num_rows, groups] : {Case{DeviceType::kCPU, kInts, 2048, 2},
                                                          {DeviceType::kCPU, kHalves, 2048, 2},
                                                          {DeviceType::kCUDA, kInts, 2048, 1},
                                                          {DeviceType::kCUDA, kInts, 65536, 2},
                                                          {DeviceType::kCUDA, kHalves, 65536, 1}}) {
    PlanTest t;
    const auto rows = t.size(num_rows), n = t.size(512);
    const Value x = t.input({rows, n}), w = t.input({n}, weights, 0, 9);
    t.output((x - sum(t, x, {1}, true)) * t.b.cast(w, DType::kFloat32));
    Program p;
    p.graph = t.g;
    p.options.device = device;
    decompose(p);
    fuse(p);
    EXPECT_EQ(p.groups.size(), groups);
  }
}

/// The values that fusion writes to memory, of a graph that is for so many rows.
bool is_stored(PlanTest& t, Value v, DeviceType device) {
  Program p;
  p.graph = t.g;
  p.options.device = device;
  fuse(p);
  return p.group_of[v.id] >= 0;
}

/// A core has a table's rows in its cache, and waits for nothing; a GPU waits for each address.
TEST(Plan, WhatIsLookedUpIsKeptOnDevices) {
  for (const DeviceType device : {DeviceType::kCPU, DeviceType::kCUDA}) {
    PlanTest t;
    const auto rows = t.size(4096), classes = t.size(65), width = t.size(128);
    const Value found = t.b.take(t.input({classes, width}), t.input({rows}, DType::kInt64, 0, 65), 0);
    const Value x = found + t.input({width});
    t.output(x + t.b.dot(relu(x), t.input({width, width}), DType::kFloat32));
    EXPECT_EQ(is_stored(t, x, device), device == DeviceType::kCUDA);
  }
}

TEST(Plan, WhatWaitsInPlaceOfAnotherIsCountedOnce) {
  PlanTest t;
  const auto rows = t.size(4096), width = t.size(128);
  const auto product = [&](Value x) { return t.b.dot(x, t.input({width, width}), DType::kFloat32); };
  const Value x = relu(t.input({rows, width})), halved = x * 0.5;
  const Value first = product(x) + halved, second = product(first) * halved;
  t.output(product(second));
  EXPECT_FALSE(is_stored(t, halved, DeviceType::kCPU));
  t.check_bits({});  // the reference takes seconds for such products
}

TEST(Plan, AliasesAndRepeatedOutputs) {
  PlanTest t;
  const auto n = t.size(4), m = t.size(6);
  const Value x = t.input({n, m}), y = exp(x);
  t.output(x);
  t.output(y);
  t.output(y);
  t.output(t.b.reshape(y, {t.g.sym.mul(n, m)}));
  t.output(t.b.reshape(x, {m, n}));
  t.check(1e-6);
  const auto plan = t.compile();
  EXPECT_EQ(plan->outputs()[0].same_as_leaf, 0);
  EXPECT_EQ(plan->outputs()[2].same_as_output, 1);
  EXPECT_EQ(plan->outputs()[3].same_as_output, 1);
  EXPECT_EQ(plan->outputs()[4].same_as_leaf, 0);
}

}  // namespace
}  // namespace smolder::jit
