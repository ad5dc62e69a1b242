// Attention's backward writes the gradient of what split into queries, keys and values whole, and the same numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "jit/plan_test_util.h"
#include "smolder/jit/cuda/join_gradients.h"
#include "smolder/jit/graph/simplify.h"

namespace smolder::jit {
namespace {

using ir::Op;
using ir::Value;

constexpr int64_t kBatch = 2, kHeads = 3, kLength = 5, kWidth = 4;

/// attention's backward as a plan on CUDA has it, and what gathers its results.
struct Case {
  PlanTest t;
  std::array<Value, 3> parts;
  ir::Dim batch = t.size(kBatch), heads = t.size(kHeads), length = t.size(kLength), width = t.size(kWidth);
  ir::Dim row = t.g.sym.mul(heads, width), whole = t.size(3 * kHeads * kWidth);

  Case() {
    const ir::SymDims shape{batch, heads, length, width};
    std::vector<ir::ValueId> inputs;
    for (int i = 0; i < 5; ++i) inputs.push_back(t.input(shape).id);
    inputs.push_back(t.input({batch, heads, length, 1}, DType::kFloat32, 1, 3).id);
    inputs.push_back(t.number(0.5).id);
    const ir::ValueInfo result{ir::kNone, DType::kFloat32, false, {batch, length, heads, width}};
    const std::array<ir::ValueInfo, 3> results{result, result, result};
    const ir::ValueId first = t.g.append(Op::kFlashAttentionBackward, std::move(inputs), {1, 1}, results);
    for (ir::ValueId i = 0; i < 3; ++i) parts[i] = t.b.wrap(first + i);
  }

  /// A part in its place of the projection's columns.
  Value column_part(int i, int place) {
    const ir::Dim low = place == 0 ? ir::Dim(0) : t.size(place * kHeads * kWidth);
    const ir::Dim high = place == 2 ? ir::Dim(0) : t.g.sym.sub(t.g.sym.sub(whole, low), row);
    return t.b.pad(t.b.reshape(parts[static_cast<size_t>(i)], {batch, length, row}), {0, 0, low}, {0, 0, high}, 0.0);
  }

  bool is_joined() {
    Program p;
    p.graph = t.g;
    cuda::join_gradients(p);
    t.g = p.graph;
    ir::verify(t.g);
    return std::ranges::any_of(t.g.nodes, [](const ir::Node& n) { return n.op == Op::kFlashAttentionBackwardJoined; });
  }

  std::vector<float> run() {
    const PlanTest::Result r = t.run();
    std::vector<float> all;
    for (const std::vector<uint8_t>& bytes : r.outputs) {
      all.resize(all.size() + bytes.size() / sizeof(float));
      std::memcpy(all.data() + all.size() - bytes.size() / sizeof(float), bytes.data(), bytes.size());
    }
    return all;
  }
  /// Joins, and expects the same numbers.
  void check() {
    const std::vector<float> before = run();
    ASSERT_TRUE(is_joined());
    EXPECT_TRUE(std::ranges::none_of(t.g.nodes, [](const ir::Node& n) { return n.op == Op::kPad; }));
    EXPECT_EQ(run(), before);
  }
};

TEST(JoinGradients, OfASplit) {
  Case c;
  c.t.output((c.column_part(2, 2) + c.column_part(1, 1)) + c.column_part(0, 0));
  c.check();
}

TEST(JoinGradients, OfAnUnbind) {
  Case c;
  std::array<Value, 3> pads;
  for (int i = 0; i < 3; ++i) {
    const Value part = c.t.b.reshape(c.parts[static_cast<size_t>(i)], {c.batch, c.length, 1, c.heads, c.width});
    pads[static_cast<size_t>(i)] = c.t.b.pad(part, {0, 0, i, 0, 0}, {0, 0, 2 - i, 0, 0}, 0.0);
  }
  c.t.output(exp(pads[0] + (pads[1] + pads[2])));
  c.check();
}

TEST(JoinGradients, OfAnUnbindInFront) {
  Case c;
  std::array<Value, 3> pads;
  for (int i = 0; i < 3; ++i) {
    const Value part = c.t.b.transpose(c.parts[static_cast<size_t>(i)], -2, -3);
    const Value only = c.t.b.reshape(part, {1, c.batch, c.heads, c.length, c.width});
    pads[static_cast<size_t>(i)] = c.t.b.pad(only, {i, 0, 0, 0, 0}, {2 - i, 0, 0, 0, 0}, 0.0);
  }
  c.t.output(exp(c.t.b.permute((pads[2] + pads[1]) + pads[0], {1, 3, 0, 2, 4})));
  c.check();
}

TEST(JoinGradients, NotInAnotherOrder) {
  Case c;
  c.t.output((c.column_part(0, 1) + c.column_part(1, 0)) + c.column_part(2, 2));
  EXPECT_FALSE(c.is_joined());
}

TEST(JoinGradients, NotWhereAPartIsReadByItself) {
  Case c;
  c.t.output((c.column_part(0, 0) + c.column_part(1, 1)) + c.column_part(2, 2));
  c.t.output(exp(c.parts[1]));
  EXPECT_FALSE(c.is_joined());
}

TEST(JoinGradients, NotWhereASumIsReadByItself) {
  Case c;
  const Value two = c.column_part(0, 0) + c.column_part(1, 1);
  c.t.output(two + c.column_part(2, 2));
  c.t.output(two);
  EXPECT_FALSE(c.is_joined());
}

}  // namespace
}  // namespace smolder::jit
