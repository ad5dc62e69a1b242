// The canonical order of reductions, bit for bit, against a scalar restatement of docs/architecture/arithmetic.md; and
// their values against the interpreter.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "eager/arrays.h"
#include "smolder/core/thread_pool.h"
#include "smolder/eager/execute.h"
#include "smolder/ir/builder.h"
#include "smolder/ir/interpret_number.h"

namespace smolder::eager {
namespace {

using ir::Op;
using ir::PlainTensor;
using ir::ReduceKind;

constexpr int kLanes = 32;

/// One step in dtype `t`, rounded to it: the primitive of the kind.
Scalar step(ReduceKind kind, DType t, const Scalar& a, const Scalar& b) {
  return ir::reference::convert(ir::reference::accumulate(kind, a, b), t);
}

/// The elements x[0], x[1], ... of one row, in 32 lanes combined by halving.
Scalar row(ReduceKind kind, DType t, const std::vector<Scalar>& x) {
  std::vector<Scalar> lanes(kLanes, ir::reference::identity(kind, t));
  for (size_t j = 0; j < x.size(); ++j) lanes[j % kLanes] = step(kind, t, lanes[j % kLanes], x[j]);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] = step(kind, t, lanes[i], lanes[i + half]);
  }
  return lanes[0];
}

Scalar column(ReduceKind kind, DType t, const std::vector<Scalar>& x) {
  Scalar sum = ir::reference::identity(kind, t);
  for (const Scalar& v : x) sum = step(kind, t, sum, v);
  return sum;
}

PlainTensor canonical(ReduceKind kind, const PlainTensor& x, int axis, int64_t chunk) {
  int64_t outer = 1, inner = 1;
  for (int a = 0; a < axis; ++a) outer *= x.shape[a];
  for (int a = axis + 1; a < x.shape.size(); ++a) inner *= x.shape[a];
  const int64_t n = x.shape[axis], size = chunk == 0 ? n : chunk, chunks = chunk == 0 ? 1 : (n + chunk - 1) / chunk;
  PlainTensor out{x.dtype, x.shape, {}, false};
  out.shape[axis] = chunks;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t c = 0; c < chunks; ++c) {
      for (int64_t i = 0; i < inner; ++i) {
        std::vector<Scalar> piece;
        for (int64_t j = c * size; j < std::min(n, (c + 1) * size); ++j) {
          piece.push_back(x.elements[(o * n + j) * inner + i]);
        }
        out.elements.push_back(inner == 1 ? row(kind, x.dtype, piece) : column(kind, x.dtype, piece));
      }
    }
  }
  return out;
}

std::vector<int64_t> words(ReduceKind kind, int axis, int64_t chunk) {
  return {static_cast<int64_t>(kind), axis, chunk};
}

PlainTensor reduce(ReduceKind kind, const Array& x, int axis, int64_t chunk) {
  return to_plain(execute(Op::kReduce, {&x, 1}, words(kind, axis, chunk))[0]);
}

bool defined(ReduceKind kind, DType t) {
  return (kind != ReduceKind::kAny && kind != ReduceKind::kAll) || t == DType::kBool;
}

class Reduce : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  const ReduceKind kind_ = static_cast<ReduceKind>(std::get<0>(GetParam()));
  const DType dtype_ = static_cast<DType>(std::get<1>(GetParam()));
  std::mt19937 random_{static_cast<uint32_t>(std::get<0>(GetParam()) * 8 + std::get<1>(GetParam()))};

  /// Products stay finite, so that their order shows; extremes and nan matter to max and min.
  Domain domain() const {
    return kind_ == ReduceKind::kProd  ? Domain{0.9, 1.1, false}
           : kind_ == ReduceKind::kSum ? Domain{-8, 8, false}
                                       : Domain{-8, 8, true};
  }
};

TEST_P(Reduce, CanonicalOrderOverShapesAndLayouts) {
  struct Case {
    Dims shape;
    int axis;
    int64_t chunk;
  };
  const Case cases[] = {
      {{1}, 0, 0},         {{31}, 0, 0},           {{32}, 0, 0},       {{33}, 0, 0},        {{1000}, 0, 0},
      {{3, 100}, 1, 0},    {{3, 100}, 1, 48},      {{3, 100}, 0, 0},   {{70, 3}, 0, 32},    {{5, 70, 1, 1}, 1, 0},
      {{2, 50, 33}, 1, 0}, {{2, 50, 33}, 1, 7},    {{40, 1}, 0, 0},    {{3, 0}, 1, 0},      {{0, 3}, 0, 0},
      {{0, 3}, 1, 0},      {{0}, 0, 16},           {{4, 600}, 0, 0},   {{3, 2, 600}, 1, 1}, {{7, 1}, 1, 0},
      {{1100, 2}, 1, 0},   {{515, 3}, 1, 0},       {{2, 9, 4}, 2, 0},  {{3, 5}, 1, 0},      {{1030, 8, 1}, 1, 0},
      {{520, 9}, 1, 0},    {{65, 31}, 1, 0},       {{64, 32}, 1, 0},   {{70, 33}, 1, 0},    {{2, 3, 64}, 2, 0},
      {{5, 65}, 1, 0},     {{6, 7}, 1, 4},         {{33000, 2}, 1, 0}, {{3000, 3}, 0, 0},   {{3000, 3}, 0, 128},
      {{4, 500, 5}, 1, 0}, {{2, 700, 40}, 1, 256}, {{9, 64}, 0, 0},    {{9, 65}, 0, 0},     {{1500, 12}, 0, 0},
      {{2, 1, 7}, 1, 0}};
  for (const Case& c : cases) {
    const PlainTensor x = random_tensor(random_, c.shape, dtype_, domain());
    const PlainTensor expected = canonical(kind_, x, c.axis, c.chunk);
    for (Layout layout : kLayouts) {
      ASSERT_TRUE(same(reduce(kind_, to_array(x, layout), c.axis, c.chunk), expected))
          << to_string(c.shape) << " axis " << c.axis << " chunk " << c.chunk << " " << name(layout);
    }
  }
}

TEST_P(Reduce, NearTheInterpreter) {
  const PlainTensor x = random_tensor(random_, {7, 90}, dtype_, domain());
  const double eps = dtype_ == DType::kFloat64   ? 0x1p-52
                     : dtype_ == DType::kFloat32 ? 0x1p-23
                     : dtype_ == DType::kFloat16 ? 0x1p-10
                                                 : 0x1p-7;
  const bool sums = kind_ == ReduceKind::kSum || kind_ == ReduceKind::kProd;
  for (int axis : {0, 1}) {
    const PlainTensor* inputs[] = {&x};
    const PlainTensor expected = ir::interpret(Op::kReduce, inputs, words(kind_, axis, 0))[0];
    const double magnitude = kind_ == ReduceKind::kProd ? 200 : 8;
    const double absolute = is_floating(dtype_) && sums ? 90 * magnitude * eps * 4 : 0;
    EXPECT_TRUE(near(reduce(kind_, to_array(x), axis, 0), expected, absolute)) << "axis " << axis;
  }
}

TEST_P(Reduce, BitsDoNotDependOnThreads) {
  const int before = num_threads();
  for (const auto& [shape, axis, chunk] : {std::tuple<Dims, int, int64_t>{{3, 40000}, 1, 0},
                                           {{200000}, 0, 16384},
                                           {{300, 700}, 0, 128},
                                           {{5000, 3}, 0, 128}}) {
    const Array x = to_array(random_tensor(random_, shape, dtype_, domain()));
    set_num_threads(1);
    const PlainTensor one = reduce(kind_, x, axis, chunk);
    set_num_threads(4);
    EXPECT_TRUE(same(reduce(kind_, x, axis, chunk), one)) << to_string(shape);
  }
  set_num_threads(before);
}

std::vector<std::tuple<int, int>> kinds_and_dtypes() {
  std::vector<std::tuple<int, int>> out;
  for (int kind = 0; kind < 6; ++kind) {
    for (int t = 0; t < kNumDTypes; ++t) {
      if (defined(static_cast<ReduceKind>(kind), static_cast<DType>(t))) out.emplace_back(kind, t);
    }
  }
  return out;
}
std::string case_name(const testing::TestParamInfo<std::tuple<int, int>>& info) {
  static constexpr const char* kKinds[] = {"sum", "prod", "max", "min", "any", "all"};
  const auto [kind, dtype] = info.param;
  return std::string(kKinds[kind]) + "_" + std::string(name(static_cast<DType>(dtype)));
}
INSTANTIATE_TEST_SUITE_P(Kinds, Reduce, testing::ValuesIn(kinds_and_dtypes()), case_name);

TEST(ReduceEdges, NanSpreadsThroughMaxAndMin) {
  for (int place : {0, 31, 32, 69}) {
    PlainTensor x{DType::kFloat32, {70}, std::vector<Scalar>(70, Scalar(1.0)), false};
    x.elements[place] = std::numeric_limits<double>::quiet_NaN();
    for (ReduceKind kind : {ReduceKind::kMax, ReduceKind::kMin, ReduceKind::kSum}) {
      EXPECT_TRUE(std::isnan(reduce(kind, to_array(x), 0, 0).elements[0].to_double())) << place;
    }
  }
}

TEST(ReduceEdges, EmptyGivesTheIdentity) {
  const Array x = Array::empty({0}, DType::kFloat32);
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(reduce(ReduceKind::kMax, x, 0, 0).elements[0].to_double(), -inf);
  EXPECT_EQ(reduce(ReduceKind::kMin, x, 0, 0).elements[0].to_double(), inf);
  EXPECT_EQ(reduce(ReduceKind::kProd, x, 0, 0).elements[0].to_double(), 1);
  const double zero = reduce(ReduceKind::kSum, x, 0, 0).elements[0].to_double();
  EXPECT_EQ(zero, 0);
  EXPECT_FALSE(std::signbit(zero));
}

TEST(ReduceEdges, AnyOfFloatsIsRefusedByName) {
  const Array x = Array::empty({4}, DType::kFloat32);
  EXPECT_THROW(
      try { reduce(ReduceKind::kAny, x, 0, 0); } catch (const NotImplementedError& e) {
        EXPECT_NE(std::string(e.what()).find("float32"), std::string::npos);
        throw;
      },
      NotImplementedError);
}

/// The whole composition of the builder, long rows and columns included: what a sum of many elements is, exactly.
TEST(ReduceComposition, FollowsTheDesign) {
  std::mt19937 random(3);
  const auto check = [&](Dims shape, std::vector<int> axes, auto expected) {
    ir::Graph g;
    ir::Builder b(g);
    g.outputs = {b.reduce(ReduceKind::kSum, b.leaf(0, DType::kFloat32, ir::SymDims(shape)), axes, false).id};
    const PlainTensor x = random_tensor(random, shape, DType::kFloat32, {-8, 8, false});
    const Array leaf = to_array(x);
    EXPECT_TRUE(same(to_plain(execute_graph(g, {&leaf, 1})[0]), expected(x))) << to_string(shape);
  };
  const auto sum = [](const PlainTensor& x, int axis, int64_t chunk) {
    return canonical(ReduceKind::kSum, x, axis, chunk);
  };
  const auto shaped = [](PlainTensor x, Dims shape) {
    x.shape = shape;
    return x;
  };
  check({300, 1000}, {0, 1}, [&](const PlainTensor& x) {  // merged, then in chunks: 300000 > 131072
    return shaped(sum(sum(shaped(x, {300000}), 0, 16384), 0, 0), {});
  });
  check({1000, 5}, {0}, [&](const PlainTensor& x) { return shaped(sum(sum(x, 0, 128), 0, 0), {5}); });
  check({20, 6, 9}, {0, 2}, [&](const PlainTensor& x) { return shaped(sum(sum(x, 2, 0), 0, 0), {6}); });
}

}  // namespace
}  // namespace smolder::eager
