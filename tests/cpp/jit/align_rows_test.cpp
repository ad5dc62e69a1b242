// Room behind the rows of matrices that products are given: which have it, and that nothing else changes.
#include "smolder/jit/align_rows.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "jit/plan_test_util.h"
#include "smolder/jit/decompose.h"
#include "smolder/jit/fuse.h"
#include "smolder/jit/lower.h"

namespace smolder::jit {
namespace {

using ir::Value;

/// Scores of `classes`, what is computed of them, and two products of that.
struct Case {
  PlanTest t;
  ir::Dim rows = t.size(40), width = t.size(96), classes;
  DType dtype;
  Value x, w, scores, bent;

  explicit Case(int64_t num_classes, DType type = DType::kBFloat16)
      : classes(t.size(num_classes)),
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

}  // namespace
}  // namespace smolder::jit
