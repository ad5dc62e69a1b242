// What plans say of themselves as data.
#include <gtest/gtest.h>

#include <algorithm>

#include "jit/plan_test_util.h"
#include "smolder/jit/plan_report.h"

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

TEST(PlanReport, PlansHaveNumbersOfTheirOwn) {
  PlanTest a, b;
  a.output(exp(a.input({4})));
  b.output(exp(b.input({4})));
  EXPECT_NE(a.compile()->id(), b.compile()->id());
}

}  // namespace
}  // namespace smolder::jit
