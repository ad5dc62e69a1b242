// Values that are computed twice: which, and what that changes.
#include <gtest/gtest.h>

#include <algorithm>

#include "jit/plan_test_util.h"
#include "smolder/jit/plan/plan_report.h"

namespace smolder::jit {
namespace {

using ir::ReduceKind;
using ir::Value;

constexpr RecomputeLimits kAnything = {.scarce = 0, .share = 1, .saved = 0.5};

Value dot(PlanTest& t, Value a, Value b) { return t.b.dot(a, b, DType::kFloat32); }
Value turned(PlanTest& t, Value a) { return t.b.permute(a, {0, 2, 1}); }

Value softmax(PlanTest& t, Value x) {
  const Value e = exp(x - t.b.reduce(ReduceKind::kMax, x, {2}, true));
  return e / t.b.reduce(ReduceKind::kSum, e, {2}, true);
}

/// A layer, much after it, and gradients of the layer. Its activation is 32 x 64.
void layer(PlanTest& t) {
  const auto n = t.size(32), width = t.size(16), hidden = t.size(64), wide = t.size(512);
  const auto weight = [&](ir::Dim rows, ir::Dim columns) {
    return t.input({1, rows, columns}, DType::kFloat32, -1, 1);
  };
  const Value x = weight(n, width), up = weight(width, hidden), down = weight(hidden, width), out = weight(width, wide);
  const Value h = dot(t, x, up), bent = tanh(h), active = h * bent;
  const Value dy = dot(t, softmax(t, dot(t, dot(t, active, down), out)), turned(t, out));
  t.output(dot(t, turned(t, active), dy));
  const Value g = dot(t, dy, turned(t, down)), dh = g * bent + g * h * (1.0 - bent * bent);
  t.output(dot(t, turned(t, x), dh));
}

PlanReport report_of(PlanTest& t) {
  const auto plan = t.compile();
  return plan->bind(t.symbols)->report();
}

TEST(Recompute, AnActivationIsWrittenAgainByTheKernelOfItsGradient) {
  PlanTest t;
  layer(t);
  const PlanReport kept = report_of(t);
  PlanReport made;
  {
    const Recomputing now(kAnything);
    made = report_of(t);
    EXPECT_EQ(now.graphs, 1);
    t.check(1e-4, {{40, 16, 64, 512}, {3, 24, 72, 600}});
  }
  EXPECT_EQ(kept.arena_bytes - made.arena_bytes, 32 * 64 * 4);
  EXPECT_EQ(kept.steps.size(), made.steps.size());
  const auto moved = [](const PlanReport& r) {
    int64_t sum = 0;
    for (const ReportedStep& s : r.steps) sum += s.bytes;
    return sum;
  };
  EXPECT_EQ(moved(made) - moved(kept), 32 * 64 * 4);
}

TEST(Recompute, OnlyWhereMemoryIsScarceAndTimeIsLeft) {
  PlanTest t;
  layer(t);
  const int64_t kept = report_of(t).arena_bytes;
  for (const RecomputeLimits& limits : {RecomputeLimits{}, RecomputeLimits{.scarce = 0, .share = 1e-4, .saved = 0.5},
                                        RecomputeLimits{.scarce = kept + 1, .share = 1, .saved = 0},
                                        RecomputeLimits{.scarce = 0, .share = 1, .saved = 2}}) {
    const Recomputing now(limits);
    EXPECT_EQ(report_of(t).arena_bytes, kept);
    EXPECT_EQ(now.graphs, 0);
  }
}

TEST(Recompute, ANormalisedRowIsWrittenAgainFromItsRow) {
  PlanTest t;
  const auto n = t.size(40), m = t.size(96), wide = t.size(700);
  const auto weight = [&](ir::Dim rows, ir::Dim columns) {
    return t.input({1, rows, columns}, DType::kFloat32, -1, 1);
  };
  const Value x = dot(t, weight(n, m), weight(m, m)), w = t.input({m}), b = t.input({m});
  const Value up = weight(m, m), out = weight(m, wide);
  const auto mean_of = [&](Value v) { return t.b.reduce(ReduceKind::kSum, v, {2}, true) / t.b.number(m); };
  const Value centred = x - mean_of(x), rstd = rsqrt(mean_of(centred * centred) + 1e-5), scaled = centred * rstd;
  const Value normal = scaled * w + b;
  const Value dh = dot(t, softmax(t, dot(t, dot(t, normal, up), out)), turned(t, out));
  t.output(dot(t, turned(t, normal), dh));
  const Value dy = dot(t, dh, turned(t, up)), g = dy * w;
  t.output((g - mean_of(g) - scaled * mean_of(g * scaled)) * rstd);
  t.output(t.b.reduce(ReduceKind::kSum, dy * scaled, {0, 1}, false));
  const int64_t kept = report_of(t).arena_bytes;
  const Recomputing now(kAnything);
  EXPECT_EQ(kept - report_of(t).arena_bytes, 40 * 96 * 4);
  t.check(1e-4, {{41, 96, 700}, {7, 64, 720}});
}

// The values that it is made from are needed no more: keeping that is no less.
TEST(Recompute, NothingElseIsKeptInstead) {
  PlanTest t;
  const auto n = t.size(32), width = t.size(64), wide = t.size(512);
  const Value x = t.input({1, n, width}), w = t.input({1, width, width}), out = t.input({1, width, wide});
  const Value active = tanh(dot(t, x, w)), scores = dot(t, dot(t, active, w), out);
  t.output(dot(t, turned(t, active), dot(t, softmax(t, scores), turned(t, out))));
  const Recomputing now(kAnything);
  t.compile();
  EXPECT_EQ(now.graphs, 0);
}

// Bad indices are reported once.
TEST(Recompute, NothingIsLookedUpTwice) {
  PlanTest t;
  const auto n = t.size(32), width = t.size(64), wide = t.size(512);
  const Value table = exp(t.input({t.size(10), width})), index = t.input({n}, DType::kInt64, 0, 10);
  const Value rows = t.b.reshape(t.b.take(table, index, 0) * 0.5, {1, n, width});
  const Value w = t.input({1, width, width}), out = t.input({1, width, wide});
  const Value scores = dot(t, dot(t, rows, w), out);
  t.output(dot(t, turned(t, rows), dot(t, softmax(t, scores), turned(t, out))));
  t.output(dot(t, t.b.reshape(table, {1, table.shape()[0], width}), out));
  const Recomputing now(kAnything);
  t.compile();
  EXPECT_EQ(now.graphs, 0);
}

}  // namespace
}  // namespace smolder::jit
