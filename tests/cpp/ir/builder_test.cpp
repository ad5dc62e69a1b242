// How the builder folds, promotes and broadcasts, and the canonical composition of reductions.
#include "smolder/ir/builder.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "smolder/ir/value_ops.h"

namespace smolder::ir {
namespace {

struct BuilderTest : testing::Test {
  Graph g;
  Builder b{g};
  Value leaf(DType t, SymDims shape) { return b.leaf(leaves_++, t, shape); }
  Dim symbol(int64_t n) { return g.sym.symbol(n); }
  /// Names of the nodes made after the first `from`.
  std::string made(size_t from) const {
    std::string out;
    for (size_t i = from; i < g.nodes.size(); ++i) out += (i > from ? " " : "") + std::string(name(g.nodes[i].op));
    return out;
  }
  /// Names of the nodes that `f` appends.
  std::string made(const std::function<void()>& f) const {
    const size_t from = g.nodes.size();
    f();
    return made(from);
  }
  int leaves_ = 0;
};

TEST_F(BuilderTest, FoldsWhatChangesNothing) {
  const Value x = leaf(DType::kFloat32, {symbol(4), 8});
  EXPECT_EQ(made([&] {
              b.cast(x, DType::kFloat32);
              b.reshape(x, x.shape());
              b.expand(x, x.shape());
              b.permute(x, {0, 1});
              b.transpose(x, 1, 1);
              b.slice(x, 0, 0, x.size(0));
              b.pad(x, {0, 0}, {0, 0}, 0.0);
              b.flip(x, {});
              b.cat({x}, 0);
              b.squeeze(x, 1);
            }),
            "");
  EXPECT_TRUE(g.sym.guards().empty());
}

TEST_F(BuilderTest, CastsAndExpandsStrongOperandsAndLeavesNumbersWeak) {
  const Value x = leaf(DType::kBFloat16, {3, 4}), y = leaf(DType::kFloat32, {4});
  Value z;
  EXPECT_EQ(made([&] { z = x + y; }), "cast expand add");
  EXPECT_EQ(z.dtype(), DType::kFloat32);
  EXPECT_EQ(z.shape().values(), (Dims{3, 4}));
  EXPECT_EQ(made([&] { z = x * 2.5; }), "constant mul");
  EXPECT_EQ(z.dtype(), DType::kBFloat16);
  EXPECT_TRUE(b.wrap(g.producer(z.id).inputs[1]).weak());
}

TEST_F(BuilderTest, PromotesAsTorchDoes) {
  const Value i = leaf(DType::kInt32, {2}), u = leaf(DType::kUInt8, {2}), flag = leaf(DType::kBool, {2});
  const Value half = leaf(DType::kFloat16, {2}), bf = leaf(DType::kBFloat16, {2}), zero = leaf(DType::kFloat64, {});
  EXPECT_EQ((i + u).dtype(), DType::kInt32);
  EXPECT_EQ((i + 1).dtype(), DType::kInt32);
  EXPECT_EQ((i + 1.5).dtype(), DType::kFloat32);
  EXPECT_EQ((flag + 1).dtype(), DType::kInt64);
  EXPECT_EQ((half + bf).dtype(), DType::kFloat32);
  EXPECT_EQ((half + zero).dtype(), DType::kFloat16) << "zero-dim tensors count only with a higher category";
  EXPECT_EQ((i + zero).dtype(), DType::kFloat64);
  EXPECT_EQ((i / u).dtype(), DType::kFloat32);
  EXPECT_EQ((i < 2.5).dtype(), DType::kBool);
  EXPECT_EQ(exp(i).dtype(), DType::kFloat32);
  EXPECT_EQ(where(flag, 1.0, i).dtype(), DType::kFloat32);
  EXPECT_EQ(where(flag, 1, 0).dtype(), DType::kInt64);
}

TEST_F(BuilderTest, NumbersComputeInDoublePrecision) {
  const Value lr = b.parameter(0, Category::kFloat), step = b.parameter(1, Category::kInt);
  const Value y = 1.0 - pow(lr, step);
  EXPECT_TRUE(y.weak());
  EXPECT_EQ(y.dtype(), DType::kFloat64);
  EXPECT_EQ((step + 1).dtype(), DType::kInt64);
  EXPECT_EQ((step / 2).dtype(), DType::kFloat64);
  EXPECT_TRUE(where(lr < 0.5, lr, 1.0).weak());
}

TEST_F(BuilderTest, RejectsWhatThePrimitiveDoesNotTake) {
  const Value flag = leaf(DType::kBool, {2}), x = leaf(DType::kFloat32, {2});
  EXPECT_THROW(flag - flag, NotImplementedError);
  EXPECT_THROW(x & x, NotImplementedError);
  EXPECT_THROW(x + leaf(DType::kFloat32, {3}), RuntimeError);
}

TEST_F(BuilderTest, GuardsEqualExtentsThatBroadcastingReliesOn) {
  const Value x = leaf(DType::kFloat32, {symbol(6)}), y = leaf(DType::kFloat32, {symbol(6)});
  (void)(x + y);
  ASSERT_EQ(g.sym.guards().size(), 1u);
  EXPECT_EQ(g.sym.guards()[0].kind, GuardKind::kEqual);
}

TEST_F(BuilderTest, SizesAreNumbers) {
  EXPECT_EQ(made([&] { b.number(3); }), "constant");
  EXPECT_EQ(made([&] { EXPECT_TRUE(b.number(symbol(3)).weak()); }), "extent");
}

// -- reductions

TEST_F(BuilderTest, MergesAdjacentAxesAndReducesFromTheLast) {
  const Value x = leaf(DType::kFloat32, {2, 3, 4, 5});
  EXPECT_EQ(made([&] { b.reduce(ReduceKind::kSum, x, {3, 0, 1}, false); }), "reshape reduce reduce reshape");
  const auto& nodes = g.nodes;
  const Node& first = nodes[nodes.size() - 3];
  EXPECT_EQ(first.attrs[1].value, 2) << "the last axis first";
  EXPECT_EQ(nodes[nodes.size() - 2].attrs[1].value, 0);
  EXPECT_EQ(b.reduce(ReduceKind::kMax, x, {-1}, true).shape().values(), (Dims{2, 3, 4, 1}));
  EXPECT_EQ(b.reduce(ReduceKind::kMax, x, {}, false).shape().values(), Dims());
}

TEST_F(BuilderTest, ChunksLongRowsAndColumns) {
  const auto chunks = [&](SymDims shape, int axis) {
    const Value x = leaf(DType::kFloat32, shape);
    const size_t from = g.nodes.size();
    b.reduce(ReduceKind::kSum, x, {axis}, true);
    std::vector<int64_t> out;
    for (size_t i = from; i < g.nodes.size(); ++i) out.push_back(g.nodes[i].attrs[2].value);
    return out;
  };
  using Chunks = std::vector<int64_t>;
  EXPECT_EQ(chunks({131072}, 0), Chunks({0}));
  EXPECT_EQ(chunks({131073}, 0), Chunks({16384, 0}));
  EXPECT_EQ(chunks({1 << 20, 1}, 0), Chunks({16384, 0})) << "extents of one after it make no column";
  EXPECT_EQ(chunks({128, 4}, 0), Chunks({0}));
  EXPECT_EQ(chunks({129, 4}, 0), Chunks({128, 0}));
  EXPECT_EQ(chunks({20000, 4}, 0), Chunks({128, 128, 0}));
  b.set_device(DeviceType::kCUDA);
  EXPECT_EQ(chunks({4096}, 0), Chunks({0}));
  EXPECT_EQ(chunks({4097}, 0), Chunks({128, 0}));
  EXPECT_EQ(chunks({1 << 20}, 0), Chunks({1024, 0}));
  EXPECT_EQ(chunks({1, 1 << 16}, 1), Chunks({0})) << "not all axes";
  EXPECT_EQ(chunks({2048, 4}, 0), Chunks({16, 0}));
  EXPECT_EQ(chunks({4096, 4}, 0), Chunks({32, 0}));
  EXPECT_EQ(chunks({16384, 4}, 0), Chunks({128, 0}));
}

TEST_F(BuilderTest, GuardsTheThresholdsOfReductions) {
  const Value x = leaf(DType::kFloat32, {symbol(200), symbol(64)});
  b.reduce(ReduceKind::kSum, x, {0}, true);
  const auto& guards = g.sym.guards();
  ASSERT_EQ(guards.size(), 2u);
  EXPECT_EQ(guards[0].kind, GuardKind::kGreater);  // 200 > 128: one level of chunks,
  EXPECT_EQ(guards[0].b, Dim(128));
  EXPECT_EQ(guards[1].kind, GuardKind::kLessEqual);  // whose partials are few
}

}  // namespace
}  // namespace smolder::ir
