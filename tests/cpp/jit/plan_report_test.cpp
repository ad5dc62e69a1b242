// Reports of plans, as data.
#include <gtest/gtest.h>

#include <algorithm>

#include "jit/plan_test_util.h"
#include "smolder/jit/plan/plan_report.h"

namespace smolder::jit {
namespace {

using ir::Value;

PlanReport report_of(PlanTest& t) {
  const auto plan = t.compile();
  return plan->bind(t.symbols)->report();
}

TEST(PlanReport, CountsWhatAProductMovesAndComputes) {
  PlanTest t;
  const Value a = t.input({1, t.size(6), 8}), b = t.input({1, 8, 5});
  t.output(t.b.dot(a, b, DType::kFloat32));
  const PlanReport r = report_of(t);
  ASSERT_EQ(r.steps.size(), 1u);
  const ReportedStep& s = r.steps[0];
  EXPECT_EQ(s.kind, ReportedStep::kLibrary);
  EXPECT_EQ(s.product_flops, 2.0 * 6 * 8 * 5);
  EXPECT_EQ(s.product_dtype, DType::kFloat32);
  EXPECT_EQ(s.bytes, 4 * (6 * 8 + 8 * 5 + 6 * 5));
}

TEST(PlanReport, IsOfTheSizesThatThePlanIsBoundTo) {
  PlanTest t;
  const Value x = t.input({t.size(4), 16});
  t.output(ir::relu(x) + x);
  const auto plan = t.compile();
  const std::vector<int64_t> other = {32};
  const PlanReport r = plan->bind(other)->report();
  EXPECT_EQ(r.plan, plan->id());
  ASSERT_EQ(r.steps.size(), 1u);
  EXPECT_EQ(r.steps[0].bytes, 2 * 32 * 16 * 4);
  EXPECT_EQ(r.steps[0].other_flops, 2 * 32 * 16);
  EXPECT_EQ(r.buffers[r.steps[0].moves[0].buffer].shape, (Dims{32, 16}));
}

TEST(PlanReport, SaysWhyNeighboursAreNotOneKernel) {
  PlanTest t;
  const Value x = t.input({t.size(64), 64});
  t.output(exp(t.b.reduce(ir::ReduceKind::kSum, x, {0}, false)));
  const PlanReport r = report_of(t);
  ASSERT_GE(r.steps.size(), 2u);
  ASSERT_FALSE(r.refusals.empty());
  for (const ReportedRefusal& refused : r.refusals) {
    EXPECT_FALSE(refused.why.empty());
    const auto moves = [&](int step, bool written) {
      return std::ranges::any_of(r.steps[step].moves, [&](const ReportedMove& m) {
        return m.buffer == refused.buffer && m.written == written;
      });
    };
    EXPECT_TRUE(moves(refused.from, true));
    EXPECT_TRUE(moves(refused.to, false));
  }
}

TEST(PlanReport, PlacesTheArenasBuffersSideBySide) {
  PlanTest t;
  const Value x = t.input({1, t.size(64), 64}), w = t.input({1, 64, 64});
  t.output(exp(t.b.dot(exp(t.b.dot(exp(x), w, DType::kFloat32)), w, DType::kFloat32)));
  const PlanReport r = report_of(t);
  for (const ReportedBuffer& a : r.buffers) {
    if (a.arena_offset < 0) continue;
    EXPECT_EQ(a.kind, ReportedBuffer::kArena);
    EXPECT_LE(a.arena_offset + a.bytes, r.arena_bytes);
    EXPECT_LE(a.first_launch, a.last_launch);
    EXPECT_LT(a.last_launch, r.launches);
  }
}

// A gradient of rows goes where they were, though one has their sizes from a product and the other from a reshape.
TEST(PlanReport, RowsAreOverwrittenByTheirGradient) {
  for (const int64_t columns : {64, 20000}) {
    PlanTest t;
    const auto batch = t.size(4), length = t.size(8), n = t.size(32), inner = t.size(16), c = t.size(columns);
    const Value x = t.input({1, n, inner}, DType::kFloat32, -1, 1), w = t.input({1, inner, c}, DType::kFloat32, -1, 1);
    const Value scores = t.b.reshape(t.b.dot(x, w, DType::kFloat32), {batch, length, c});
    const Value e = exp(scores - t.b.reduce(ir::ReduceKind::kMax, scores, {2}, true));
    const Value p = e / t.b.reduce(ir::ReduceKind::kSum, e, {2}, true);
    t.output(t.b.dot(t.b.reshape(p, {1, n, c}), t.b.permute(w, {0, 2, 1}), DType::kFloat32));
    t.check(1e-5);
    EXPECT_EQ(report_of(t).arena_bytes, 32 * columns * 4);
  }
}

TEST(PlanReport, PlansHaveNumbersOfTheirOwn) {
  PlanTest a, b;
  a.output(exp(a.input({4})));
  b.output(exp(b.input({4})));
  EXPECT_NE(a.compile()->id(), b.compile()->id());
}

}  // namespace
}  // namespace smolder::jit
