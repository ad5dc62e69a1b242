// Losses and activations as modules: their formulas, options and parameters.
#include "smolder/nn/losses.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "smolder/lazy/ops.h"
#include "smolder/nn/activations.h"

namespace smolder {
namespace {

Tensor doubles(const std::vector<double>& v) {
  return Tensor::from_data(v.data(), {static_cast<int64_t>(v.size())}, DType::kFloat64);
}

const std::vector<double> kInput{-2.5, -0.4, 0.3, 0.9, 4};
const std::vector<double> kTarget{0.2, 0.9, 0.5, 0.1, 0.7};

double mean_of(const std::function<double(double, double)>& term, const std::vector<double>& input) {
  double total = 0;
  for (size_t i = 0; i < input.size(); ++i) total += term(input[i], kTarget[i]);
  return total / static_cast<double>(input.size());
}

TEST(Losses, FollowTheirFormulas) {
  const Tensor x = doubles(kInput), t = doubles(kTarget);
  const auto near = [](const Tensor& loss, double expected) { EXPECT_NEAR(loss.item().to_double(), expected, 1e-12); };
  near(nn::L1Loss()(x, t), mean_of([](double a, double b) { return std::abs(a - b); }, kInput));
  near(nn::SmoothL1Loss("mean", 0.5)(x, t), mean_of(
                                                [](double a, double b) {
                                                  const double d = std::abs(a - b);
                                                  return d < 0.5 ? d * d : d - 0.25;
                                                },
                                                kInput));
  near(nn::HuberLoss("sum", 0.7)(x, t), 5 * mean_of(
                                                [](double a, double b) {
                                                  const double d = std::abs(a - b);
                                                  return d < 0.7 ? d * d / 2 : 0.7 * (d - 0.35);
                                                },
                                                kInput));
  const auto entropy = [](double p, double q) { return -q * std::log(p) - (1 - q) * std::log(1 - p); };
  const auto logistic = [](double a) { return 1 / (1 + std::exp(-a)); };
  near(nn::BCEWithLogitsLoss()(x, t), mean_of([&](double a, double b) { return entropy(logistic(a), b); }, kInput));
  const std::vector<double> p{0.1, 0.9, 0.4, 0.6, 0.5};
  near(nn::BCELoss()(doubles(p), t), mean_of(entropy, p));
  near(nn::BCELoss(doubles({2, 2, 2, 2, 2}))(doubles(p), t), 2 * mean_of(entropy, p));
  near(nn::KLDivLoss()(log(doubles(p)), t),
       mean_of([](double a, double b) { return b * (std::log(b) - std::log(a)); }, p));
  const Tensor scores = reshape(doubles({-1, -2, -3, -4, -5, -6}), {2, 3});
  const Tensor classes = cat({zeros({1}, DType::kInt64), ones({1}, DType::kInt64) * 2}, 0);
  near(nn::NLLLoss()(scores, classes), 3.5);
  near(nn::NLLLoss(doubles({3, 1, 1}))(scores, classes), (3 * 1 + 6) / 4.0);
  near(nn::NLLLoss(Tensor(), 2)(scores, classes), 1);
}

TEST(Losses, BadOptionsAreNamed) {
  const Tensor x = doubles(kInput);
  EXPECT_THROW(nn::HuberLoss("mean", 0)(x, x), RuntimeError);
  EXPECT_THROW(nn::SmoothL1Loss("mean", -1)(x, x), RuntimeError);
  EXPECT_THROW(nn::BCELoss()(x, doubles({1})), ValueError);
}

TEST(Activations, FollowTheirFormulas) {
  const Tensor x = doubles(kInput);
  const auto check = [&](const Tensor& y, const std::function<double(double)>& f) {
    const std::vector<double> got = y.to_vector<double>();
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], f(kInput[i]), 1e-12) << kInput[i];
  };
  const auto logistic = [](double v) { return 1 / (1 + std::exp(-v)); };
  const auto between = [](double v, double low, double high) { return std::min(std::max(v, low), high); };
  check(nn::Sigmoid()(x), logistic);
  check(nn::Tanh()(x), [](double v) { return std::tanh(v); });
  check(nn::SiLU()(x), [&](double v) { return v * logistic(v); });
  check(nn::SELU()(x), [](double v) { return 1.0507009873554805 * (v > 0 ? v : 1.6732632423543772 * std::expm1(v)); });
  check(nn::Mish()(x), [](double v) { return v * std::tanh(std::log1p(std::exp(v))); });
  check(nn::ReLU6()(x * 2), [&](double v) { return between(2 * v, 0, 6); });
  check(nn::Hardswish()(x), [&](double v) { return v * between(v + 3, 0, 6) / 6; });
  check(nn::Hardsigmoid()(x), [&](double v) { return between(v + 3, 0, 6) / 6; });
  check(nn::LogSigmoid()(x), [&](double v) { return std::log(logistic(v)); });
  check(nn::Softsign()(x), [](double v) { return v / (1 + std::abs(v)); });
  check(nn::Tanhshrink()(x), [](double v) { return v - std::tanh(v); });
  check(nn::LeakyReLU(0.2)(x), [](double v) { return v > 0 ? v : 0.2 * v; });
  check(nn::ELU(0.5)(x), [](double v) { return v > 0 ? v : 0.5 * std::expm1(v); });
  check(nn::Softplus(2, 3)(x), [](double v) { return 2 * v > 3 ? v : std::log1p(std::exp(2 * v)) / 2; });
  check(nn::Hardtanh(-0.5, 1)(x), [&](double v) { return between(v, -0.5, 1); });
  double total = 0;
  for (double v : kInput) total += std::exp(v);
  check(nn::Softmax(0)(x), [&](double v) { return std::exp(v) / total; });
  check(nn::LogSoftmax(0)(x), [&](double v) { return v - std::log(total); });
  EXPECT_NEAR(nn::GLU()(doubles({3, -1})).item().to_double(), 3 * logistic(-1), 1e-12);
}

TEST(Activations, PreluLearnsItsWeight) {
  nn::PReLU prelu;
  EXPECT_EQ(prelu->named_parameters().size(), 1u);
  sum(prelu(full({4}, -2.0))).backward();
  EXPECT_EQ(prelu->weight.grad().to_vector<float>(), std::vector<float>{-8});
}

}  // namespace
}  // namespace smolder
