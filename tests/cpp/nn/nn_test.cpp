// Modules and optimizers: names, initial values, formulas, and that training learns.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "smolder/core/counters.h"
#include "smolder/eager/dispatcher.h"
#include "smolder/lazy/ops.h"
#include "smolder/lazy/random.h"
#include "smolder/lazy/record.h"
#include "smolder/nn/modules.h"
#include "smolder/nn/optim.h"

namespace smolder {
namespace {

struct Net : nn::Module {
  nn::Linear fc1{4, 16}, fc2{16, 3};
  nn::LayerNorm norm{Dims{16}};
  Net() {
    register_module("fc1", fc1);
    register_module("norm", norm);
    register_module("fc2", fc2);
  }
  Tensor forward(const Tensor& x) { return fc2(relu(norm(fc1(x)))); }
};

TEST(Module, NamesAreDottedAndInOrder) {
  const Net net;
  std::vector<std::string> names;
  for (const auto& [name, t] : net.named_parameters()) names.push_back(name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"fc1.weight", "fc1.bias", "norm.weight", "norm.bias", "fc2.weight", "fc2.bias"}));
  EXPECT_EQ(net.parameters().size(), 6u);
}

TEST(Module, LinearIsInitialisedWithinTorchsBound) {
  const nn::Linear fc(100, 50);
  double largest = 0;
  for (float v : fc->weight.to_vector<float>()) largest = std::max(largest, std::abs(static_cast<double>(v)));
  EXPECT_LE(largest, 0.1);
  EXPECT_GT(largest, 0.09);
}

TEST(Module, StateMovesFromOneToAnother) {
  Net a, b;
  b.load_state_dict(a.state_dict());
  EXPECT_EQ(a.fc1->weight.to_vector<float>(), b.fc1->weight.to_vector<float>());
  nn::Named<Tensor> bad = a.state_dict();
  bad[0].second = zeros({3, 3});
  bad.pop_back();
  try {
    b.load_state_dict(bad);
    FAIL() << "no error";
  } catch (const RuntimeError& e) {
    EXPECT_NE(std::string(e.what()).find("missing: fc2.bias"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("size mismatch for fc1.weight"), std::string::npos) << e.what();
  }
}

TEST(Module, EvaluationTurnsDropoutOff) {
  nn::Dropout dropout(0.5);
  const Tensor x = ones({1000});
  const auto zeros_in = [](const Tensor& t) {
    const auto v = t.to_vector<float>();
    return std::count(v.begin(), v.end(), 0.0f);
  };
  EXPECT_NEAR(static_cast<double>(zeros_in(dropout(x))), 500, 100);
  dropout->eval();
  EXPECT_EQ(zeros_in(dropout(x)), 0);
}

TEST(Module, AttentionGivesAWeightedMeanOfValues) {
  nn::MultiheadAttention attention(8, 2);
  const Tensor x = randn({2, 5, 8});
  const Tensor y = attention(x, x, x, Tensor(), true);
  EXPECT_EQ(y.shape(), (Dims{2, 5, 8}));
  // Causal: the first position sees itself alone, so a later change does not reach it.
  const Tensor changed = slice_scatter(x, randn({2, 1, 8}), 1, 4);
  const Tensor z = attention(changed, changed, changed, Tensor(), true);
  EXPECT_EQ(select(y, 1, 0).to_vector<float>(), select(z, 1, 0).to_vector<float>());
  EXPECT_NE(select(y, 1, 4).to_vector<float>(), select(z, 1, 4).to_vector<float>());
}

TEST(Optimizer, SgdFollowsItsFormula) {
  Tensor w = ones({3});
  w.requires_grad_();
  optim::SGD sgd({w}, {.lr = 0.1, .momentum = 0.5});
  double value = 1, buffer = 0;
  for (int i = 0; i < 4; ++i) {
    sgd.zero_grad();
    sum(w * w).backward();
    sgd.step();
    buffer = i ? buffer * 0.5 + 2 * value : 2 * value;
    value -= 0.1 * buffer;
  }
  for (float v : w.to_vector<float>()) EXPECT_NEAR(v, value, 1e-6);
}

TEST(Optimizer, RmspropFollowsItsFormula) {
  for (const bool centered : {false, true}) {
    Tensor w = ones({3}, DType::kFloat64);
    w.requires_grad_();
    optim::RMSprop rmsprop({w}, {.lr = 0.1, .alpha = 0.5, .momentum = 0.5, .centered = centered});
    double value = 1, square = 0, average = 0, buffer = 0;
    for (int i = 0; i < 4; ++i) {
      rmsprop.zero_grad();
      sum(w * w).backward();
      rmsprop.step();
      const double g = 2 * value;
      square = 0.5 * square + 0.5 * g * g;
      average = 0.5 * average + 0.5 * g;
      buffer = 0.5 * buffer + g / (std::sqrt(centered ? square - average * average : square) + 1e-8);
      value -= 0.1 * buffer;
    }
    for (double v : w.to_vector<double>()) EXPECT_NEAR(v, value, 1e-12);
  }
}

TEST(Optimizer, AdagradFollowsItsFormula) {
  Tensor w = ones({3}, DType::kFloat64);
  w.requires_grad_();
  optim::Adagrad adagrad({w}, {.lr = 0.1, .lr_decay = 0.5, .weight_decay = 0.1, .initial_accumulator_value = 0.2});
  double value = 1, total = 0.2;
  for (int i = 0; i < 4; ++i) {
    adagrad.zero_grad();
    sum(w * w).backward();
    adagrad.step();
    const double g = 2 * value + 0.1 * value;
    total += g * g;
    value -= 0.1 / (1 + 0.5 * i) * g / (std::sqrt(total) + 1e-10);
  }
  for (double v : w.to_vector<double>()) EXPECT_NEAR(v, value, 1e-12);
}

TEST(Optimizer, BadOptionsAreNamed) {
  Tensor w = ones({1});
  EXPECT_THROW(optim::SGD({w}, {.lr = -1}), ValueError);
  EXPECT_THROW(optim::Adam({w}, {.beta1 = 1.5}), ValueError);
  EXPECT_THROW(optim::Adam(std::vector<Tensor>{}), ValueError);
  EXPECT_THROW(optim::RMSprop({w}, {.alpha = -1}), ValueError);
  EXPECT_THROW(optim::Adagrad({w}, {.lr_decay = -1}), ValueError);
}

TEST(Optimizer, TrainingLearnsAndCompilesNothingAfterTheSecondStep) {
  manual_seed(1);
  Net net;
  optim::AdamW adamw(net.parameters(), {.lr = 0.01, .weight_decay = 0.01});
  nn::CrossEntropyLoss criterion;
  const Tensor x = randn({64, 4});
  const Tensor y = (select(x, 1, 0) > 0).to(DType::kInt64) + (select(x, 1, 1) > 0).to(DType::kInt64);
  double first = 0, last = 0;
  int64_t plans = 0;
  for (int i = 0; i < 60; ++i) {
    adamw.options.lr = 0.01 * (1 - i / 100.0);
    adamw.zero_grad();
    const Tensor loss = criterion(net.forward(x), y);
    loss.backward();
    adamw.step();
    mark_step();
    last = loss.item().to_double();
    if (i == 0) first = last;
    if (i == 2) plans = counter("plans.instances").value();
  }
  EXPECT_LT(last, first / 2);
  EXPECT_EQ(counter("plans.instances").value(), plans);
}

TEST(Optimizer, StateOfAUsersDeviceIsMadeThere) {
  const auto copy = [](void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); };
  const eager::DispatchKey key =
      eager::add_device("plain", {.allocate = [](size_t bytes) -> void* { return new char[bytes + 1]; },
                                  .release = [](void* data, size_t) { delete[] static_cast<char*>(data); },
                                  .to_host = copy,
                                  .from_host = copy});
  for (const ir::Op op : {ir::Op::kBarrier, ir::Op::kCast}) {
    eager::register_kernel(key, op, *eager::find_kernel(eager::DispatchKey::kCPU, op));
  }
  const Tensor parameter = ones({2, 3}, DType::kFloat32).to(eager::device_of(key));
  const Tensor state = optim::zero_state(parameter);
  EXPECT_EQ(state.device(), parameter.device());
  EXPECT_EQ(state.shape(), parameter.shape());
  EXPECT_EQ(state.to_vector<float>(), std::vector<float>(6, 0.0f));
}

}  // namespace
}  // namespace smolder
