// Recurrent layers and cells, with torch's names, defaults and initialisation.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "smolder/nn/module.h"

namespace smolder::nn {

struct RecurrentOptions {
  int64_t num_layers = 1;
  bool bias = true, batch_first = false;
  double dropout = 0;  ///< after all layers but the last
  bool bidirectional = false;
  int64_t proj_size = 0;              ///< of an LSTM's h; 0: not projected
  std::string nonlinearity = "tanh";  ///< of RNN: "tanh" or "relu"
};

/// Layers of one or two directions over sequences [T, B, input_size], or [B, T, input_size] with batch_first.
class RecurrentBase : public Module {
 public:
  /// Draws the parameters again, uniform in +-1/sqrt(hidden_size).
  void reset_parameters();

 protected:
  using State = std::vector<Tensor>;
  RecurrentBase(int gates, int64_t input_size, int64_t hidden_size, const RecurrentOptions& options);
  /// Every h, and the last states, [layers * directions, B, size] each; `initial` is empty for zeros.
  std::pair<Tensor, State> run(const Tensor& x, const State& initial) const;
  /// A direction of a layer over rows time by time: every h, and the last states.
  virtual std::pair<Tensor, State> direction(const Tensor& rows, const State& state, const std::string& suffix,
                                             const std::vector<int64_t>& batch_sizes, bool reverse) const = 0;
  /// The sizes of the states.
  virtual std::vector<int64_t> widths() const { return {hidden_size_}; }
  /// A parameter by name, or an undefined tensor where there is none.
  Tensor weight(const std::string& name) const;
  int64_t input_size_, hidden_size_;
  RecurrentOptions options_;

 private:
  State begin(const State& initial, int64_t batch, const Tensor& x) const;
};

/// h = tanh(x W_ih^T + b_ih + h W_hh^T + b_hh), or relu of it.
class RNNImpl : public RecurrentBase {
 public:
  RNNImpl(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options = {});
  /// Every h, and the last ones.
  std::tuple<Tensor, Tensor> forward(const Tensor& x, const Tensor& hx = {}) const;

 private:
  std::pair<Tensor, State> direction(const Tensor& rows, const State& state, const std::string& suffix,
                                     const std::vector<int64_t>& batch_sizes, bool reverse) const override;
};
SMOLDER_MODULE(RNN);

/// Long short-term memory.
class LSTMImpl : public RecurrentBase {
 public:
  LSTMImpl(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options = {});
  /// Every h, and the last h and c.
  std::tuple<Tensor, std::tuple<Tensor, Tensor>> forward(const Tensor& x,
                                                         const std::tuple<Tensor, Tensor>& hx = {}) const;

 private:
  std::pair<Tensor, State> direction(const Tensor& rows, const State& state, const std::string& suffix,
                                     const std::vector<int64_t>& batch_sizes, bool reverse) const override;
  std::vector<int64_t> widths() const override;
};
SMOLDER_MODULE(LSTM);

/// Gated recurrent units.
class GRUImpl : public RecurrentBase {
 public:
  GRUImpl(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options = {});
  /// Every h, and the last ones.
  std::tuple<Tensor, Tensor> forward(const Tensor& x, const Tensor& hx = {}) const;

 private:
  std::pair<Tensor, State> direction(const Tensor& rows, const State& state, const std::string& suffix,
                                     const std::vector<int64_t>& batch_sizes, bool reverse) const override;
};
SMOLDER_MODULE(GRU);

/// A step of a recurrent layer.
class RecurrentCellBase : public Module {
 public:
  Tensor weight_ih, weight_hh, bias_ih, bias_hh;

 protected:
  RecurrentCellBase(int gates, int64_t input_size, int64_t hidden_size, bool bias);
  /// The state, or zeros.
  Tensor begin(const Tensor& state, const Tensor& x) const;

 private:
  int64_t hidden_size_;
};

class RNNCellImpl : public RecurrentCellBase {
 public:
  RNNCellImpl(int64_t input_size, int64_t hidden_size, bool bias = true, std::string nonlinearity = "tanh")
      : RecurrentCellBase(1, input_size, hidden_size, bias), nonlinearity_(std::move(nonlinearity)) {}
  /// h' of rows x and h; without hx, h is zero.
  Tensor forward(const Tensor& x, const Tensor& hx = {}) const;

 private:
  std::string nonlinearity_;
};
SMOLDER_MODULE(RNNCell);

class LSTMCellImpl : public RecurrentCellBase {
 public:
  LSTMCellImpl(int64_t input_size, int64_t hidden_size, bool bias = true)
      : RecurrentCellBase(4, input_size, hidden_size, bias) {}
  /// h' and c' of rows x, h and c; without hx, they are zero.
  std::tuple<Tensor, Tensor> forward(const Tensor& x, const std::tuple<Tensor, Tensor>& hx = {}) const;
};
SMOLDER_MODULE(LSTMCell);

class GRUCellImpl : public RecurrentCellBase {
 public:
  GRUCellImpl(int64_t input_size, int64_t hidden_size, bool bias = true)
      : RecurrentCellBase(3, input_size, hidden_size, bias) {}
  /// h' of rows x and h; without hx, h is zero.
  Tensor forward(const Tensor& x, const Tensor& hx = {}) const;
};
SMOLDER_MODULE(GRUCell);

}  // namespace smolder::nn
