// Room behind the rows of matrices that products are given: which have it, and that nothing else changes.
#include "smolder/jit/lower/align_rows.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "jit/plan_test_util.h"
#include "smolder/jit/fuse/fuse.h"
#include "smolder/jit/graph/decompose.h"
#include "smolder/jit/lower/lower.h"

namespace smolder::jit {
namespace {

using ir::Value;

/// Scores of `classes`, what is computed of them, and two products of that.
struct Case {
  PlanTest t;
  ir::Dim rows, width, classes;
  DType dtype;
  Value x, w, scores, bent;

  explicit Case(int64_t num_classes, DType type = DType::kBFloat16, int64_t num_rows = 40, int64_t depth = 96)
      : rows(t.size(num_rows)),
        width(t.size(depth)),
        classes(t.size(num_classes)),
        dtype(type),
        x(t.input({rows, width}, type)),
        w(t.input({classes, width}, type)),
        scores(t.b.dot(x, t.b.permute(w, {1, 0}), type)),
        bent(tanh(scores)) {
    t.output(t.b.dot(bent, w, type));
    t.output(t.b.dot(t.b.permute(bent, {1, 0}), x, type));
  }
  Program lowered(DeviceType device = DeviceType::kCUDA) {
    Program p;
    p.graph = t.g;
    p.options.device = device;
    decompose(p);
    if (device == DeviceType::kCUDA) copy_odd_outputs(p);
    fuse(p);
    lower(p);
    return p;
  }
  /// Elements from a row of what is computed to the next.
  static int64_t distance(const Program& p, Value v) { return p.buffers[p.buffer_of[v.id]].strides[0].value; }
};

TEST(AlignRows, OddRowsOfHalvesBeginAtMultiplesOf16Bytes) {
  Case c(65);
  const Program p = c.lowered();
  for (const Value v : {c.scores, c.bent}) {
    const BufferInfo& info = p.buffers[p.buffer_of[v.id]];
    EXPECT_EQ(info.strides[0].value, 72);
    EXPECT_EQ(info.elements.value, 40 * 72);
    EXPECT_FALSE(info.contiguous);
  }
  const auto kernel = std::ranges::find_if(p.steps, [](const Step& s) { return s.kernel != nullptr; });
  ASSERT_NE(kernel, p.steps.end());
  EXPECT_EQ(kernel->in_place().size(), 1U);
}

TEST(AlignRows, OthersLieDensely) {
  for (const auto& [classes, dtype] : {std::pair(int64_t{64}, DType::kBFloat16), {33, DType::kBFloat16}}) {
    Case c(classes, dtype);
    EXPECT_EQ(Case::distance(c.lowered(), c.scores), classes);
  }
  Case wide(65, DType::kFloat32);
  EXPECT_EQ(Case::distance(wide.lowered(), wide.bent), 65);
  Case host(65);
  EXPECT_EQ(Case::distance(host.lowered(DeviceType::kCPU), host.bent), 65);
}

TEST(AlignRows, WhatOthersReadLiesDensely) {
  Case seen(65);
  seen.t.output(seen.bent);
  const Program p = seen.lowered();
  EXPECT_EQ(Case::distance(p, seen.bent), 65);
  EXPECT_EQ(Case::distance(p, seen.scores), 72);
  Case scanned(65);
  scanned.t.output(scanned.t.b.scan(ir::ScanKind::kSum, scanned.bent, 1));
  EXPECT_EQ(Case::distance(scanned.lowered(), scanned.bent), 65);
  Case joined(65);
  const ir::Dim all = joined.t.g.sym.mul(joined.rows, joined.classes);
  joined.t.output(joined.t.b.dot(joined.t.b.reshape(joined.bent, {1, all}),
                                 joined.t.input({all, joined.width}, DType::kBFloat16), DType::kBFloat16));
  EXPECT_EQ(Case::distance(joined.lowered(), joined.bent), 65);
}

/// How many outputs there are that are other memory than `v`, in which what the plan goes on with has room.
int64_t copies(const Program& p, const ir::ValueInfo& v) {
  int64_t count = 0;
  for (const BufferInfo& output : p.buffers) {
    if (output.kind != BufferInfo::kOutput || output.shape.values() != v.shape.values()) continue;
    EXPECT_TRUE(output.contiguous);
    count += std::ranges::count_if(p.steps, [&](const Step& s) {
      if (!s.kernel || s.reads.size() != 1 || s.writes != std::vector{p.buffer_of[output.value]}) return false;
      const BufferInfo& read = p.buffers[s.reads[0]];
      return read.kind == BufferInfo::kArena && read.strides[0].value == v.shape[1].value / 8 * 8 + 8;
    });
  }
  return count;
}

TEST(AlignRows, OutputsOfLargeProductsAreCopies) {
  constexpr int64_t kRows = 2048, kDepth = 640;
  for (const bool is_reshaped : {false, true}) {
    Case held(1001, DType::kBFloat16, kRows, kDepth);
    if (is_reshaped) held.t.output(held.t.b.reshape(held.scores, {2, 1024, held.classes}));
    if (!is_reshaped) held.t.output(held.bent);
    held.t.output(held.scores);
    const Program p = held.lowered();
    EXPECT_EQ(p.outputs.size(), 4U);
    EXPECT_EQ(copies(p, held.t.g.info(held.scores.id)), is_reshaped ? 1 : 2) << is_reshaped;
    EXPECT_EQ(p.outputs[3].same_as_output, is_reshaped ? 2 : -1);
  }
}

TEST(AlignRows, OthersAreNot) {
  const auto copies_of = [](Case& held, Value v) {
    held.t.output(v);
    const Program p = held.lowered();
    return copies(p, held.t.g.info(v.id));
  };
  Case small(1001);
  EXPECT_EQ(copies_of(small, small.scores), 0);
  Case even(1000, DType::kBFloat16, 2048, 640);
  EXPECT_EQ(copies_of(even, even.scores), 0);
  Case shallow(50257, DType::kBFloat16, 2048, 64);
  EXPECT_EQ(copies_of(shallow, shallow.scores), 0);
  Case odd_leaf(1001, DType::kBFloat16, 2048, 641);
  EXPECT_EQ(copies_of(odd_leaf, odd_leaf.scores), 0);
  Case scanned(1001, DType::kBFloat16, 2048, 640);
  scanned.t.output(scanned.t.b.scan(ir::ScanKind::kSum, scanned.scores, 1));
  EXPECT_EQ(copies_of(scanned, scanned.scores), 0);
}

}  // namespace
}  // namespace smolder::jit
