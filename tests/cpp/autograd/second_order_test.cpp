// Gradients of gradients, against central differences of the gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "smolder/autograd/engine.h"
#include "smolder/lazy/ops.h"
#include "smolder/lazy/record.h"

namespace smolder {
namespace {

struct Case {
  std::string name;
  std::vector<Dims> shapes;  ///< of the inputs that are differentiated
  double low, high;
  std::function<Tensor(const std::vector<Tensor>&)> f;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

Tensor make(const std::vector<double>& data, const Dims& shape) {
  return Tensor::from_data(data.data(), shape, DType::kFloat64);
}

std::vector<double> uniform(int64_t n, double low, double high, std::mt19937& rng) {
  std::uniform_real_distribution<double> real(low, high);
  std::vector<double> out(n);
  for (double& v : out) v = real(rng);
  return out;
}

Tensor classes() {
  const std::vector<int64_t> v = {1, 0, 3, -100};
  return Tensor::from_data(v.data(), {4}, DType::kInt64);
}

const Case kCases[] = {
    {"gelu", {{6}}, -3, 3, [](auto& x) { return gelu(x[0]); }},
    {"gelu_tanh", {{6}}, -3, 3, [](auto& x) { return gelu(x[0], "tanh"); }},
    {"silu", {{6}}, -3, 3, [](auto& x) { return silu(x[0]); }},
    {"tanh", {{6}}, -3, 3, [](auto& x) { return tanh(x[0]); }},
    {"sigmoid", {{6}}, -3, 3, [](auto& x) { return sigmoid(x[0]); }},
    {"softplus", {{6}}, -3, 3, [](auto& x) { return softplus(x[0], 1.5); }},
    {"elu", {{6}}, 0.1, 3, [](auto& x) { return elu(neg(x[0])); }},
    {"div", {{3, 2}, {2}}, 0.5, 2, [](auto& x) { return x[0] / x[1]; }},
    {"pow", {{4}, {4}}, 0.5, 2, [](auto& x) { return pow(x[0], x[1]); }},
    {"pow_number", {{4}}, 0.5, 2, [](auto& x) { return pow(x[0], 2.5); }},
    {"sqrt_rsqrt", {{4}}, 0.5, 2, [](auto& x) { return sqrt(x[0]) * rsqrt(x[0] + 1); }},
    {"atan2", {{4}, {4}}, 0.5, 2, [](auto& x) { return atan2(x[0], x[1]); }},
    {"softmax", {{3, 4}}, -2, 2, [](auto& x) { return softmax(x[0], 1); }},
    {"log_softmax", {{3, 4}}, -2, 2, [](auto& x) { return log_softmax(x[0], 0); }},
    {"logsumexp", {{3, 4}}, -2, 2, [](auto& x) { return logsumexp(x[0], 1); }},
    {"var", {{3, 4}}, -2, 2, [](auto& x) { return var(x[0], 1); }},
    {"std", {{3, 4}}, -2, 2, [](auto& x) { return smolder::std(x[0], 0); }},
    {"prod", {{3, 3}}, 0.5, 2, [](auto& x) { return prod(x[0], 1); }},
    {"norm", {{3, 4}}, 0.5, 2, [](auto& x) { return norm(x[0], 2, 1); }},
    {"norm_3", {{3, 4}}, 0.5, 2, [](auto& x) { return norm(x[0], 3, 1); }},
    {"matmul", {{2, 3, 4}, {4, 2}}, -1, 1, [](auto& x) { return tanh(matmul(x[0], x[1])); }},
    {"linear", {{3, 4}, {2, 4}, {2}}, -1, 1, [](auto& x) { return tanh(linear(x[0], x[1], x[2])); }},
    {"layer_norm", {{3, 5}, {5}, {5}}, 0.3, 2, [](auto& x) { return layer_norm(x[0], {5}, x[1], x[2]); }},
    {"layer_norm_plain", {{2, 2, 3}}, -2, 2, [](auto& x) { return layer_norm(x[0], {2, 3}); }},
    {"attention",
     {{2, 3, 4}, {2, 3, 4}, {2, 3, 2}},
     -1,
     1,
     [](auto& x) { return scaled_dot_product_attention(x[0], x[1], x[2], {}, 0, true); }},
    {"attention_mask",
     {{3, 4}, {5, 4}, {5, 2}, {3, 5}},
     -1,
     1,
     [](auto& x) { return scaled_dot_product_attention(x[0], x[1], x[2], x[3]); }},
    {"cross_entropy", {{4, 5}}, -2, 2, [](auto& x) { return cross_entropy(x[0], classes()); }},
    {"cross_entropy_smooth",
     {{4, 5}},
     -2,
     2,
     [](auto& x) { return cross_entropy(x[0], classes(), {}, -100, "none", 0.2); }},
    {"nll_loss", {{4, 5}}, -2, 2, [](auto& x) { return nll_loss(x[0] * x[0], classes(), {}, -100, "sum"); }},
    {"mse_loss", {{3, 4}, {3, 4}}, -2, 2, [](auto& x) { return mse_loss(x[0], x[1]); }},
    {"bce",
     {{3, 4}},
     -2,
     2,
     [](auto& x) { return binary_cross_entropy_with_logits(x[0], full({3, 4}, 0.3, DType::kFloat64)); }},
    {"slices",
     {{4, 5}},
     -2,
     2,
     [](auto& x) { return slice(x[0] * x[0], 1, 0, 5, 2) + select(x[0] * x[0], 1, 3).unsqueeze(1); }},
    {"cat", {{2, 3}, {2, 2}}, -2, 2, [](auto& x) { return square(cat({x[0], x[1], x[0]}, 1)); }},
    {"gather",
     {{4, 5}},
     -2,
     2,
     [](auto& x) { return square(gather(x[0], 1, abs(classes()).clamp(0, 4).unsqueeze(1))); }},
};

class SecondOrder : public testing::TestWithParam<Case> {};

TEST_P(SecondOrder, AgreesWithDifferences) {
  const lazy::EagerMode eager;
  const Case& c = GetParam();
  std::mt19937 rng(11);
  std::vector<std::vector<double>> data;
  for (const Dims& s : c.shapes) data.push_back(uniform(numel(s), c.low, c.high, rng));
  std::vector<double> weights;
  std::vector<Tensor> directions;

  // sum of the first gradients, each along a direction: as a function of the inputs
  std::vector<Tensor> inputs;
  const auto along = [&](bool create_graph) {
    inputs.clear();
    for (size_t i = 0; i < data.size(); ++i) inputs.push_back(make(data[i], c.shapes[i]).requires_grad_());
    const Tensor y = c.f(inputs);
    if (weights.empty()) weights = uniform(y.numel(), -1, 1, rng);
    const auto grads = autograd::grad({y}, inputs, {make(weights, y.shape())}, true, create_graph, true);
    Tensor total = zeros({}, DType::kFloat64);
    for (size_t i = 0; i < grads.size(); ++i) {
      if (directions.size() <= i) directions.push_back(make(uniform(numel(c.shapes[i]), -1, 1, rng), c.shapes[i]));
      if (grads[i].defined()) total = total + sum(grads[i] * directions[i]);
    }
    return total;
  };

  const Tensor total = along(true);
  ASSERT_TRUE(total.requires_grad());
  const auto second = autograd::grad({total}, inputs, {}, false, false, true);
  for (size_t i = 0; i < data.size(); ++i) {
    if (!second[i].defined()) continue;
    const std::vector<double> got = second[i].to_vector<double>();
    for (size_t e = 0; e < got.size(); ++e) {
      constexpr double kStep = 1e-5;
      const double x = data[i][e];
      double value[2];
      for (int side = 0; side < 2; ++side) {
        data[i][e] = x + (side ? kStep : -kStep);
        value[side] = along(false).item().to_double();
      }
      data[i][e] = x;
      const double want = (value[1] - value[0]) / (2 * kStep);
      ASSERT_NEAR(got[e], want, 1e-5 * (1 + std::abs(want))) << "input " << i << ", element " << e;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, SecondOrder, testing::ValuesIn(kCases), [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace smolder
