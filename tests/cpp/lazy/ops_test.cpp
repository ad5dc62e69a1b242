// The user's functions that are compositions of ops, and what they do before recording.
#include "smolder/lazy/ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "smolder/lazy/random.h"

namespace smolder {
namespace {

using Doubles = std::vector<double>;

Doubles values(const Tensor& t) { return t.to_vector<double>(); }

/// 0, 1, 2, ... in float32.
Tensor counting(const Dims& shape) { return reshape(arange(0.0, static_cast<double>(numel(shape))), shape); }

TEST(Ops, TensorsAndNumbersMixInEveryPlace) {
  const Tensor x = counting({3});
  EXPECT_EQ(values(x + 1), (Doubles{1, 2, 3}));
  EXPECT_EQ(values(1 - x), (Doubles{1, 0, -1}));
  EXPECT_EQ(values(2 * x / 4.0), (Doubles{0, 0.5, 1}));
  EXPECT_EQ(values(pow(2, x)), (Doubles{1, 2, 4}));
  EXPECT_EQ(values(where(x > 1, x, -1)), (Doubles{-1, -1, 2}));
  EXPECT_EQ(values(where(x > 1, 5, 6)), (Doubles{6, 6, 5}));
  EXPECT_EQ(where(x > 1, 5, 6).dtype(), DType::kInt64);
  EXPECT_EQ(values(add(x, x, 10)), (Doubles{0, 11, 22}));
  EXPECT_EQ(values(sub(x, x, 3)), (Doubles{0, -2, -4}));
  EXPECT_EQ(values(maximum(x, 1)), (Doubles{1, 1, 2}));
  EXPECT_EQ(values(-x), (Doubles{-0.0, -1, -2}));
  Tensor y = counting({3});
  y += x;
  y *= 2;
  EXPECT_EQ(values(y), (Doubles{0, 4, 8}));
}

TEST(Ops, PowersTakeExactWays) {
  const Tensor x = Tensor::from_data(Doubles{3, 4}.data(), {2}, DType::kFloat64);
  EXPECT_EQ(values(pow(x, 2)), (Doubles{9, 16}));
  EXPECT_EQ(values(pow(x, 0.5)), (Doubles{std::sqrt(3), 2}));
  EXPECT_EQ(values(pow(x, -1)), (Doubles{1.0 / 3, 0.25}));
}

TEST(Ops, DivisionRounds) {
  const Tensor x = counting({4}) - 2, i = x.to(DType::kInt64);
  EXPECT_EQ(values(div(x, 2, "floor")), (Doubles{-1, -1, 0, 0}));
  EXPECT_EQ(values(div(x, 2, "trunc")), (Doubles{-1, -0.0, 0, 0}));
  EXPECT_EQ(values(div(i, 2, "trunc")), (Doubles{-1, 0, 0, 0}));
  EXPECT_EQ(div(i, 2, "floor").dtype(), DType::kInt64);
  EXPECT_EQ(div(i, 2).dtype(), DType::kFloat32);
  EXPECT_THROW(div(x, 2, "up"), RuntimeError);
}

TEST(Ops, ClampTakesEitherBound) {
  const Tensor x = counting({4});
  EXPECT_EQ(values(clamp(x, 1, 2)), (Doubles{1, 1, 2, 2}));
  EXPECT_EQ(values(clamp(x, std::nullopt, 1.0)), (Doubles{0, 1, 1, 1}));
  EXPECT_EQ(values(x.clamp(2)), (Doubles{2, 2, 2, 3}));
  EXPECT_EQ(values(clamp(x, counting({4}) + 1, full({4}, 2.0))), (Doubles{1, 2, 2, 2}));
  EXPECT_THROW(clamp(x, std::nullopt, std::nullopt), RuntimeError);
}

TEST(Ops, ShapesAreResolvedBeforeRecording) {
  const Tensor x = counting({2, 6});
  EXPECT_EQ(x.view({-1, 4}).shape(), (Dims{3, 4}));
  EXPECT_EQ(x.flatten().shape(), (Dims{12}));
  EXPECT_EQ(counting({2, 3, 4}).flatten(1).shape(), (Dims{2, 12}));
  EXPECT_EQ(counting({2, 3, 4}).flatten(0, 1).shape(), (Dims{6, 4}));
  EXPECT_EQ(x.unflatten(1, {2, -1}).shape(), (Dims{2, 2, 3}));
  EXPECT_EQ(x.unsqueeze(1).expand({-1, 3, -1}).shape(), (Dims{2, 3, 6}));
  EXPECT_EQ(counting({1, 2, 1}).squeeze().shape(), (Dims{2}));
  EXPECT_EQ(x.t().shape(), (Dims{6, 2}));
  EXPECT_THROW(x.view({5, -1}), RuntimeError);
  EXPECT_THROW(counting({2, 3, 4}).flatten(2, 1), RuntimeError);
}

TEST(Ops, SlicesAsPythonDoes) {
  const Tensor x = counting({6});
  EXPECT_EQ(values(slice(x, 0, 1, 4)), (Doubles{1, 2, 3}));
  EXPECT_EQ(values(slice(x, 0, -2)), (Doubles{4, 5}));
  EXPECT_EQ(values(slice(x, 0, std::nullopt, -4)), (Doubles{0, 1}));
  EXPECT_EQ(values(slice(x, 0, 1, 100, 2)), (Doubles{1, 3, 5}));
  EXPECT_EQ(slice(x, 0, 4, 2).shape(), (Dims{0}));
  EXPECT_EQ(values(select(counting({2, 3}), 1, -1)), (Doubles{2, 5}));
  EXPECT_EQ(values(narrow(x, 0, 2, 2)), (Doubles{2, 3}));
  EXPECT_EQ(values(select_scatter(zeros({2, 2}), counting({2}), 0, -1)), (Doubles{0, 0, 0, 1}));
  EXPECT_THROW(select(x, 0, 6), IndexError);
  EXPECT_THROW(narrow(x, 0, 5, 2), RuntimeError);
}

TEST(Ops, SplitsCoverTheWhole) {
  const Tensor x = counting({7, 2});
  const auto shapes = [](const std::vector<Tensor>& parts) {
    std::vector<int64_t> out;
    for (const Tensor& p : parts) out.push_back(p.size(0));
    return out;
  };
  EXPECT_EQ(shapes(split(x, 3)), (std::vector<int64_t>{3, 3, 1}));
  EXPECT_EQ(shapes(split(x, std::vector<int64_t>{3, 4})), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(shapes(chunk(x, 3)), (std::vector<int64_t>{3, 3, 1}));
  EXPECT_EQ(unbind(x, 1).size(), 2u);
  EXPECT_EQ(values(cat(split(x, 2))), values(x));
  EXPECT_EQ(values(stack(unbind(x, 1), 1)), values(x));
  EXPECT_THROW(split(x, std::vector<int64_t>{3, 3}), RuntimeError);
}

TEST(Ops, PadsAndCrops) {
  EXPECT_EQ(values(pad(counting({2, 2}), {1, 0}, "constant", 9)), (Doubles{9, 0, 1, 9, 2, 3}));
  EXPECT_EQ(values(pad(counting({4}), {-1, 2})), (Doubles{1, 2, 3, 0, 0}));
  EXPECT_EQ(values(pad(counting({1, 4}), {1, 2}, "reflect")), (Doubles{1, 0, 1, 2, 3, 2, 1}));
  EXPECT_THROW(pad(counting({4}), {1}), RuntimeError);
}

TEST(Ops, Creation) {
  EXPECT_EQ(values(arange(3)), (Doubles{0, 1, 2}));
  EXPECT_EQ(arange(3).dtype(), DType::kInt64);
  EXPECT_EQ(values(arange(1.0, 2.0, 0.25)), (Doubles{1, 1.25, 1.5, 1.75}));
  EXPECT_EQ(values(arange(5, 0, -2)), (Doubles{5, 3, 1}));
  EXPECT_EQ(values(linspace(0.0, 1.0, 5)), (Doubles{0, 0.25, 0.5, 0.75, 1}));
  EXPECT_EQ(values(eye(2, 3)), (Doubles{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(full({2}, 3).dtype(), DType::kInt64);
  EXPECT_EQ(ones_like(counting({2}).to(DType::kInt32)).dtype(), DType::kInt32);
  EXPECT_EQ(values(tril(ones({2, 2}))), (Doubles{1, 0, 1, 1}));
  EXPECT_THROW(arange(0, 5, 0), RuntimeError);
  EXPECT_THROW(arange(0, 5, -1), RuntimeError);
}

TEST(Ops, ReductionsTakeOneAxisOrSeveral) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(values(sum(x)), (Doubles{15}));
  EXPECT_EQ(values(sum(x, 0)), (Doubles{3, 5, 7}));
  EXPECT_EQ(values(sum(x, {0, 1})), (Doubles{15}));
  EXPECT_EQ(sum(x, -1, true).shape(), (Dims{2, 1}));
  EXPECT_EQ(values(max(x)), (Doubles{5}));
  const auto [top, at] = max(x, 1);
  EXPECT_EQ(values(top), (Doubles{2, 5}));
  EXPECT_EQ(values(at), (Doubles{2, 2}));
  EXPECT_EQ(values(argmax(x)), (Doubles{5}));
  EXPECT_EQ(values(one_hot(arange(3), -1)), (Doubles{1, 0, 0, 0, 1, 0, 0, 0, 1}));
}

TEST(Ops, FillInPlace) {
  Tensor x = counting({2, 2});
  x.fill_(3);
  EXPECT_EQ(values(x), (Doubles{3, 3, 3, 3}));
  x.zero_();
  EXPECT_EQ(values(x), (Doubles{0, 0, 0, 0}));
  x.copy_(arange(2));
  EXPECT_EQ(values(x), (Doubles{0, 1, 0, 1}));
  x.masked_fill_(x == 1, 7);
  EXPECT_EQ(values(x), (Doubles{0, 7, 0, 7}));
}

TEST(Ops, GroupedQueryAttentionRepeatsHeads) {
  const Tensor q = counting({1, 4, 2, 3}) / 10, k = counting({1, 2, 5, 3}) / 10, v = counting({1, 2, 5, 3});
  const auto repeated = [](const Tensor& x) {  // each head twice
    return reshape(expand(unsqueeze(x, 2), {1, 2, 2, 5, 3}), {1, 4, 5, 3});
  };
  EXPECT_EQ(values(scaled_dot_product_attention(q, k, v, {}, 0, false, std::nullopt, true)),
            values(scaled_dot_product_attention(q, repeated(k), repeated(v))));
  EXPECT_THROW(scaled_dot_product_attention(q, k, v), RuntimeError);
}

TEST(Ops, DropoutWithinAttentionKeepsTheMean) {
  manual_seed(3);
  const Tensor q = zeros({1, 1, 4}), k = zeros({1, 20000, 4}), v = ones({1, 20000, 1});
  EXPECT_NEAR(scaled_dot_product_attention(q, k, v, {}, 0.25).item().to_double(), 1, 0.02);
}

// -- random numbers

constexpr int64_t kMany = 100000;

double mean_of(const Doubles& v) { return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size()); }
double variance_of(const Doubles& v) {
  const double m = mean_of(v);
  double sum = 0;
  for (double x : v) sum += (x - m) * (x - m);
  return sum / static_cast<double>(v.size());
}

TEST(Random, UniformHasItsMomentsAndBounds) {
  for (DType t : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16}) {
    manual_seed(1);
    const Doubles u = values(rand({kMany}, t));
    EXPECT_GE(*std::min_element(u.begin(), u.end()), 0);
    EXPECT_LT(*std::max_element(u.begin(), u.end()), 1) << name(t);
    EXPECT_NEAR(mean_of(u), 0.5, 0.01);
    EXPECT_NEAR(variance_of(u), 1.0 / 12, 0.002);
  }
}

TEST(Random, NormalHasItsMoments) {
  for (DType t : {DType::kFloat32, DType::kFloat64}) {
    manual_seed(2);
    const Doubles z = values(randn({kMany}, t));
    EXPECT_NEAR(mean_of(z), 0, 0.02);
    EXPECT_NEAR(variance_of(z), 1, 0.02);
    const auto within = std::count_if(z.begin(), z.end(), [](double v) { return std::abs(v) < 1; });
    EXPECT_NEAR(static_cast<double>(within) / kMany, 0.6827, 0.01);
  }
}

TEST(Random, IntegersCoverTheirRange) {
  const Doubles v = values(randint(-2, 3, {kMany}));
  for (int i = -2; i < 3; ++i) {
    EXPECT_NEAR(static_cast<double>(std::count(v.begin(), v.end(), i)) / kMany, 0.2, 0.01) << i;
  }
  EXPECT_THROW(randint(3, 3, {2}), RuntimeError);
}

TEST(Random, DropoutScalesWhatItKeepsAndItsGradientUsesTheSameMask) {
  manual_seed(4);
  const Tensor x = ones({kMany}).requires_grad_();
  const Tensor y = dropout(x, 0.3);
  y.backward(ones({kMany}));
  const Doubles out = values(y), grad = values(x.grad());
  EXPECT_EQ(out, grad);
  const auto kept = std::count_if(out.begin(), out.end(), [](double v) { return v != 0; });
  EXPECT_NEAR(static_cast<double>(kept) / kMany, 0.7, 0.01);
  EXPECT_FLOAT_EQ(static_cast<float>(*std::max_element(out.begin(), out.end())), 1 / 0.7f);
  EXPECT_EQ(values(dropout(x, 0.3, false)), values(x));
  EXPECT_EQ(mean_of(values(dropout(x, 1.0))), 0);
  EXPECT_THROW(dropout(x, 1.5), ValueError);
}

TEST(Random, StreamsRepeatAndDoNotOverlap) {
  manual_seed(5);
  const Doubles first = values(rand({7})), second = values(rand({7}));
  EXPECT_NE(first, second);
  manual_seed(5);
  EXPECT_EQ(values(rand({7})), first);
  const auto state = default_generator().state();
  EXPECT_EQ(values(rand({7})), second);
  default_generator().set_state(state);
  EXPECT_EQ(values(rand({7})), second);
}

TEST(Random, FillsInPlace) {
  Tensor x = zeros({kMany});
  x.uniform_(2, 4);
  EXPECT_NEAR(mean_of(values(x)), 3, 0.02);
  x.normal_(1, 0.5);
  EXPECT_NEAR(mean_of(values(x)), 1, 0.02);
  EXPECT_NEAR(mean_of(values(bernoulli(full({kMany}, 0.2)))), 0.2, 0.01);
}

}  // namespace
}  // namespace smolder
