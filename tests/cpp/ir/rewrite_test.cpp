// Building graphs anew: what is copied, replaced, left out and numbered again.
#include "smolder/ir/rewrite.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "smolder/core/error.h"
#include "smolder/ir/value_ops.h"
#include "smolder/ir/verify.h"

namespace smolder::ir {
namespace {

/// %0 x, %1 y : float32[s0, 4], %2 = x + y, %3 = relu(%2), %4 = exp(x), of which nothing is read, %5 = %3 * x.
struct RewriteTest : testing::Test {
  RewriteTest() {
    Builder b(g);
    const Dim s0 = g.sym.symbol(3);
    const Value x = b.leaf(0, DType::kFloat32, {s0, 4}), y = b.leaf(1, DType::kFloat32, {s0, 4});
    b.set_origin({7, Op::kAdd});
    sum = x + y;
    b.set_origin({8, Op::kRelu});
    max = relu(sum);
    b.set_origin({9, {}});
    dead = exp(x);
    product = max * x;
    g.outputs = {product.id, x.id};
  }
  Graph g;
  Value sum, max, dead, product;
};

std::string ops(const Graph& g) {
  std::string out;
  for (const Node& n : g.nodes) out += (out.empty() ? "" : " ") + std::string(name(n.op));
  return out;
}

TEST_F(RewriteTest, ACopyIsTheGraph) {
  const Graph copy = rewrite(g, [](Rewriter&, const Node&) { return false; });
  EXPECT_EQ(print(copy), print(g));
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    EXPECT_EQ(copy.nodes[i].origin.source, g.nodes[i].origin.source);
    EXPECT_EQ(copy.nodes[i].origin.op, g.nodes[i].origin.op);
  }
}

TEST_F(RewriteTest, AReplacementIsReadInPlaceOfTheNodeAndHasItsOrigin) {
  const Graph to = rewrite(g, [](Rewriter& r, const Node& n) {
    if (n.op != Op::kRelu) return false;
    r.set(n.first_output, maximum(r.builder().wrap(r.now(n.inputs[0])), 0.0).id);
    return true;
  });
  verify(to);
  EXPECT_EQ(ops(to), "leaf leaf add constant maximum exp mul");
  const Node& made = to.nodes[4];
  EXPECT_EQ(made.origin.source, 8u);
  EXPECT_EQ(made.origin.op, Op::kRelu);
  EXPECT_EQ(to.producer(to.outputs[0]).inputs[0], made.first_output);
  EXPECT_TRUE(std::ranges::equal(to.shape(to.outputs[0]), g.shape(product.id))) << "symbols are those of the old graph";
}

TEST_F(RewriteTest, AValueMayBecomeOneThatIsThere) {
  const Graph to = rewrite(g, [](Rewriter& r, const Node& n) {
    if (n.op != Op::kRelu) return false;
    r.set(n.first_output, r.now(n.inputs[0]));
    return true;
  });
  EXPECT_EQ(ops(to), "leaf leaf add exp mul");
  EXPECT_EQ(to.op(to.producer(to.outputs[0]).inputs[0]), Op::kAdd);
  EXPECT_EQ(to.op(to.outputs[1]), Op::kLeaf);
}

TEST_F(RewriteTest, WhatIsLeftOutMustNotBeRead) {
  EXPECT_EQ(ops(rewrite(g, [](Rewriter&, const Node& n) { return n.op == Op::kExp; })), "leaf leaf add relu mul");
  try {
    rewrite(g, [](Rewriter&, const Node& n) { return n.op == Op::kAdd; });
    FAIL() << "relu reads the sum";
  } catch (const InternalError& e) {
    EXPECT_NE(std::string(e.what()).find("left out %2, which `relu` reads"), std::string::npos) << e.what();
  }
}

TEST_F(RewriteTest, NodesMayBeChangedAndReadOtherValues) {
  Rewriter r(g);
  for (const Node& old : g.nodes) {
    Node n = old;
    if (n.op == Op::kRelu) n.op = Op::kTanh;
    if (n.op == Op::kMul) {
      r.copy(n, {r.now(dead.id), r.now(dead.id)});
    } else {
      r.copy(n);
    }
  }
  const Graph to = r.finish({r.now(product.id)});
  verify(to);
  EXPECT_EQ(ops(to), "leaf leaf add tanh exp mul");
  EXPECT_EQ(to.producer(to.outputs[0]).inputs, (std::vector<ValueId>{4, 4}));
  EXPECT_EQ(to.outputs.size(), 1u);
}

TEST_F(RewriteTest, AppendedNodesTakeNoPlace) {
  Rewriter r(g);
  for (const Node& n : g.nodes) r.copy(n);
  const ValueId before = r.now(max.id);
  const ValueId again = r.append(g.producer(max.id), r.inputs(g.producer(max.id)));
  EXPECT_NE(again, before);
  EXPECT_EQ(r.now(max.id), before);
  EXPECT_EQ(r.now(kNone), kNone);
  EXPECT_EQ(r.to().op(again), Op::kRelu);
}

TEST(Rewrite, ResultsAndAbsentOperandsKeepTheirPlaces) {
  Graph g;
  Builder b(g);
  const Value dropped = b.leaf(0, DType::kFloat32, {2}), x = b.leaf(1, DType::kFloat32, {3, 4});
  const auto [values, indices] = b.sorted(x, 1, false, 4);
  const Value product = b.dot(values, b.transpose(values, 0, 1), DType::kFloat32);
  ASSERT_EQ(g.producer(product.id).inputs[2], kNone);
  g.outputs = {indices.id, product.id};
  const Graph to = rewrite(g, [&](Rewriter&, const Node& n) { return n.first_output == dropped.id; });
  verify(to);
  EXPECT_EQ(to.outputs[0], indices.id - 1);
  EXPECT_EQ(to.dtype(to.outputs[0]), DType::kInt64);
  EXPECT_EQ(to.producer(to.outputs[1]).inputs[2], kNone);
}

TEST_F(RewriteTest, DeadCodeIsWhatNoOutputNeeds) {
  EXPECT_EQ(live_nodes(g), (std::vector<bool>{true, true, true, true, false, true}));
  const Graph to = without_dead_code(g);
  verify(to);
  EXPECT_EQ(ops(to), "leaf leaf add relu mul");
  EXPECT_EQ(print(without_dead_code(to)), print(to));
  g.outputs.clear();
  EXPECT_TRUE(without_dead_code(g).nodes.empty());
}

}  // namespace
}  // namespace smolder::ir
