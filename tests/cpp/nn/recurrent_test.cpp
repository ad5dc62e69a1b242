// Recurrent modules: names, that layers are steps of their cells, and that a net of them learns.
#include "smolder/nn/recurrent.h"

#include <gtest/gtest.h>

#include "smolder/lazy/ops.h"
#include "smolder/lazy/random.h"
#include "smolder/lazy/record.h"
#include "smolder/nn/modules.h"
#include "smolder/nn/optim.h"

namespace smolder {
namespace {

bool close(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && all(isclose(a, b, 1e-5, 1e-6)).to(DType::kInt64).to_vector<int64_t>()[0] == 1;
}

Tensor named(const nn::Module& module, const std::string& name) {
  for (const auto& [known, t] : module.state_dict()) {
    if (known == name) return t;
  }
  ADD_FAILURE() << "no " << name;
  return {};
}

/// The cell with a layer's weights.
template <class Cell, class Layer>
Cell cell_of(const Layer& layer, int64_t in, int64_t hidden, const std::string& suffix) {
  Cell cell(in, hidden);
  const lazy::GradMode off(false);
  for (const char* name : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"}) {
    named(*cell, name).copy_(named(*layer, name + suffix));
  }
  return cell;
}

TEST(Recurrent, StateIsNamedAndShapedAsTorchs) {
  const nn::LSTM lstm(3, 5, nn::RecurrentOptions{.num_layers = 2, .bidirectional = true, .proj_size = 2});
  EXPECT_EQ(lstm->state_dict().size(), 20U);
  EXPECT_EQ(named(*lstm, "weight_ih_l1_reverse").shape(), (Dims{20, 4}));
  EXPECT_EQ(named(*lstm, "weight_hr_l0").shape(), (Dims{2, 5}));
  EXPECT_EQ(named(*nn::GRU(3, 5), "weight_hh_l0").shape(), (Dims{15, 5}));
  EXPECT_THROW(nn::GRU(3, 5, nn::RecurrentOptions{.proj_size = 2}), ValueError);
  EXPECT_THROW(nn::RNN(3, 5, nn::RecurrentOptions{.nonlinearity = "sin"}), ValueError);
  EXPECT_THROW(nn::LSTM(0, 5), ValueError);
}

TEST(Recurrent, ALayerIsItsCellTimeByTime) {
  const nn::LSTM lstm(3, 4);
  const nn::LSTMCell cell = cell_of<nn::LSTMCell>(lstm, 3, 4, "_l0");
  const Tensor x = randn({5, 2, 3});
  const auto [y, last] = lstm(x);
  std::tuple<Tensor, Tensor> state;
  for (int64_t t = 0; t < 5; ++t) {
    state = cell(select(x, 0, t), state);
    EXPECT_TRUE(close(select(y, 0, t), std::get<0>(state))) << t;
  }
  EXPECT_TRUE(close(select(std::get<1>(last), 0, 0), std::get<1>(state)));
}

TEST(Recurrent, ReverseBeginsAtTheEnd) {
  const nn::GRU gru(3, 4, nn::RecurrentOptions{.batch_first = true, .bidirectional = true});
  const nn::GRUCell cell = cell_of<nn::GRUCell>(gru, 3, 4, "_l0_reverse");
  const Tensor x = randn({2, 5, 3});
  const auto [y, last] = gru(x);
  Tensor h;
  for (int64_t t = 4; t >= 0; --t) {
    h = cell(select(x, 1, t), h);
    EXPECT_TRUE(close(slice(select(y, 1, t), 1, 4, 8), h)) << t;
  }
  EXPECT_TRUE(close(select(last, 0, 1), h));
}

TEST(Recurrent, OneSequenceIsABatchOfOne) {
  const nn::RNN rnn(3, 4, nn::RecurrentOptions{.num_layers = 2, .nonlinearity = "relu"});
  const Tensor x = randn({5, 3}), hx = randn({2, 4});
  const auto [y, last] = rnn(x, hx);
  const auto [batch, ends] = rnn(unsqueeze(x, 1), unsqueeze(hx, 1));
  EXPECT_TRUE(close(y, squeeze(batch, 1)));
  EXPECT_TRUE(close(last, squeeze(ends, 1)));
  EXPECT_THROW(rnn(x, randn({1, 4})), RuntimeError);
  EXPECT_THROW(rnn(randn({5, 4})), RuntimeError);
}

TEST(Recurrent, ANetRemembersWhatCameFirst) {
  manual_seed(0);
  nn::GRU gru(1, 8);
  nn::Linear head(8, 1);
  const Tensor x = randn({6, 32, 1}), target = select(x, 0, 0);
  std::vector<Tensor> parameters = gru->parameters();
  for (const Tensor& p : head->parameters()) parameters.push_back(p);
  optim::AdamW optimizer(parameters, {.lr = 2e-2});
  double first = 0, last = 0;
  for (int i = 0; i < 80; ++i) {
    const Tensor out = head(select(std::get<1>(gru(x)), 0, 0));
    const Tensor loss = mse_loss(out, target);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    last = loss.to_vector<float>()[0];
    if (i == 0) first = last;
  }
  EXPECT_LT(last, first * 0.2);
}

}  // namespace
}  // namespace smolder
