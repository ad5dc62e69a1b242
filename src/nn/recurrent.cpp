#include "smolder/nn/recurrent.h"

#include <cmath>

#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/record.h"
#include "smolder/nn/init.h"

namespace smolder::nn {
namespace {

std::string suffix_of(int64_t layer, int direction) {
  return "_l" + std::to_string(layer) + (direction == 1 ? "_reverse" : "");
}

}  // namespace

RecurrentBase::RecurrentBase(int gates, int64_t input_size, int64_t hidden_size, const RecurrentOptions& options)
    : input_size_(input_size), hidden_size_(hidden_size), options_(options) {
  SMOLDER_CHECK(input_size > 0, ValueError, "input_size must be greater than zero");
  SMOLDER_CHECK(hidden_size > 0, ValueError, "hidden_size must be greater than zero");
  SMOLDER_CHECK(options.num_layers > 0, ValueError, "num_layers must be greater than zero");
  SMOLDER_CHECK(options.dropout >= 0 && options.dropout <= 1, ValueError,
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed");
  SMOLDER_CHECK(options.proj_size >= 0 && options.proj_size < hidden_size, ValueError,
                "proj_size has to be smaller than hidden_size");
  SMOLDER_CHECK(options.proj_size == 0 || gates == 4, ValueError,
                "proj_size argument is only supported for LSTM, not RNN or GRU");
  const int64_t rows = gates * hidden_size, out = options.proj_size ? options.proj_size : hidden_size;
  const int directions = options.bidirectional ? 2 : 1;
  for (int64_t layer = 0; layer < options.num_layers; ++layer) {
    for (int d = 0; d < directions; ++d) {
      const std::string suffix = suffix_of(layer, d);
      register_parameter("weight_ih" + suffix, zeros({rows, layer == 0 ? input_size : out * directions}));
      register_parameter("weight_hh" + suffix, zeros({rows, out}));
      if (options.bias) {
        register_parameter("bias_ih" + suffix, zeros({rows}));
        register_parameter("bias_hh" + suffix, zeros({rows}));
      }
      if (options.proj_size) register_parameter("weight_hr" + suffix, zeros({options.proj_size, hidden_size}));
    }
  }
  reset_parameters();
}

void RecurrentBase::reset_parameters() {
  const double bound = 1 / std::sqrt(static_cast<double>(hidden_size_));
  for (const Tensor& p : parameters()) init::uniform_(p, -bound, bound);
}

Tensor RecurrentBase::weight(const std::string& name) const {
  for (const auto& [known, t] : named_parameters()) {
    if (known == name) return t;
  }
  return {};
}

RecurrentBase::State RecurrentBase::begin(const State& initial, int64_t batch, const Tensor& x) const {
  const lazy::DeviceMode beside(x);
  const int64_t lead = options_.num_layers * (options_.bidirectional ? 2 : 1);
  const std::vector<int64_t> sizes = widths();
  State state;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Dims shape{lead, batch, sizes[i]};
    if (initial.empty()) {
      state.push_back(zeros(shape, x.dtype()));
      continue;
    }
    SMOLDER_CHECK(initial[i].shape() == shape, RuntimeError, "Expected hidden size ", shape, ", got ",
                  initial[i].shape());
    state.push_back(initial[i]);
  }
  return state;
}

std::pair<Tensor, RecurrentBase::State> RecurrentBase::run(const Tensor& x, const State& initial) const {
  SMOLDER_CHECK(x.dim() == 2 || x.dim() == 3, ValueError, "Expected input to be 2D or 3D, got ", x.dim(), "D instead");
  SMOLDER_CHECK(x.size(-1) == input_size_, RuntimeError, "input.size(-1) must be equal to input_size. Expected ",
                input_size_, ", got ", x.size(-1));
  const bool batched = x.dim() == 3;
  const int batch_axis = options_.batch_first ? 0 : 1;
  const Tensor batches = batched ? x : unsqueeze(x, batch_axis);
  const Tensor times = options_.batch_first ? transpose(batches, 0, 1) : batches;
  const int64_t steps = times.size(0), batch = times.size(1);
  SMOLDER_CHECK(steps > 0, RuntimeError, "Expected sequence length to be larger than 0 in RNN");
  State given = initial;
  for (Tensor& s : given) s = batched ? s : unsqueeze(s, 1);
  const State states = begin(given, batch, x);
  const std::vector<int64_t> sizes(static_cast<size_t>(steps), batch);
  std::vector<std::vector<Tensor>> last(states.size());
  Tensor rows = reshape(times, {steps * batch, input_size_});
  const int directions = options_.bidirectional ? 2 : 1;
  for (int64_t layer = 0; layer < options_.num_layers; ++layer) {
    std::vector<Tensor> outs;
    for (int d = 0; d < directions; ++d) {
      State state;
      for (const Tensor& s : states) state.push_back(select(s, 0, layer * directions + d));
      auto [out, end] = direction(rows, state, suffix_of(layer, d), sizes, d == 1);
      outs.push_back(out);
      for (size_t i = 0; i < end.size(); ++i) last[i].push_back(end[i]);
    }
    rows = directions == 1 ? outs[0] : cat(outs, 1);
    if (layer + 1 < options_.num_layers) rows = dropout(rows, options_.dropout, is_training());
  }
  const Tensor out = reshape(rows, {steps, batch, rows.size(1)});
  const Tensor y = options_.batch_first ? transpose(out, 0, 1) : out;
  State ends;
  for (const auto& s : last) ends.push_back(batched ? stack(s, 0) : squeeze(stack(s, 0), 1));
  return {batched ? y : squeeze(y, batch_axis), ends};
}

RNNImpl::RNNImpl(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options)
    : RecurrentBase(1, input_size, hidden_size, options) {
  SMOLDER_CHECK(options.nonlinearity == "tanh" || options.nonlinearity == "relu", ValueError, "Unknown nonlinearity '",
                options.nonlinearity, "'. Select from 'tanh' or 'relu'.");
}

std::pair<Tensor, RecurrentBase::State> RNNImpl::direction(const Tensor& rows, const State& state,
                                                           const std::string& suffix,
                                                           const std::vector<int64_t>& batch_sizes,
                                                           bool reverse) const {
  const auto [y, h] =
      rnn_layer(rows, state[0], weight("weight_ih" + suffix), weight("weight_hh" + suffix), weight("bias_ih" + suffix),
                weight("bias_hh" + suffix), batch_sizes, options_.nonlinearity, reverse);
  return {y, {h}};
}

std::tuple<Tensor, Tensor> RNNImpl::forward(const Tensor& x, const Tensor& hx) const {
  const auto [y, last] = run(x, hx.defined() ? State{hx} : State{});
  return {y, last[0]};
}

LSTMImpl::LSTMImpl(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options)
    : RecurrentBase(4, input_size, hidden_size, options) {}

std::vector<int64_t> LSTMImpl::widths() const {
  return {options_.proj_size ? options_.proj_size : hidden_size_, hidden_size_};
}

std::pair<Tensor, RecurrentBase::State> LSTMImpl::direction(const Tensor& rows, const State& state,
                                                            const std::string& suffix,
                                                            const std::vector<int64_t>& batch_sizes,
                                                            bool reverse) const {
  const auto [y, h, c] = lstm_layer(rows, state[0], state[1], weight("weight_ih" + suffix),
                                    weight("weight_hh" + suffix), weight("bias_ih" + suffix),
                                    weight("bias_hh" + suffix), weight("weight_hr" + suffix), batch_sizes, reverse);
  return {y, {h, c}};
}

std::tuple<Tensor, std::tuple<Tensor, Tensor>> LSTMImpl::forward(const Tensor& x,
                                                                 const std::tuple<Tensor, Tensor>& hx) const {
  const auto& [h, c] = hx;
  SMOLDER_CHECK(h.defined() == c.defined(), RuntimeError, "LSTM: expected both of h and c, or none");
  const auto [y, last] = run(x, h.defined() ? State{h, c} : State{});
  return {y, {last[0], last[1]}};
}

GRUImpl::GRUImpl(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options)
    : RecurrentBase(3, input_size, hidden_size, options) {}

std::pair<Tensor, RecurrentBase::State> GRUImpl::direction(const Tensor& rows, const State& state,
                                                           const std::string& suffix,
                                                           const std::vector<int64_t>& batch_sizes,
                                                           bool reverse) const {
  const auto [y, h] = gru_layer(rows, state[0], weight("weight_ih" + suffix), weight("weight_hh" + suffix),
                                weight("bias_ih" + suffix), weight("bias_hh" + suffix), batch_sizes, reverse);
  return {y, {h}};
}

std::tuple<Tensor, Tensor> GRUImpl::forward(const Tensor& x, const Tensor& hx) const {
  const auto [y, last] = run(x, hx.defined() ? State{hx} : State{});
  return {y, last[0]};
}

// -- cells

RecurrentCellBase::RecurrentCellBase(int gates, int64_t input_size, int64_t hidden_size, bool bias)
    : hidden_size_(hidden_size) {
  const double bound = hidden_size > 0 ? 1 / std::sqrt(static_cast<double>(hidden_size)) : 0;
  const auto drawn = [&](const Dims& shape) {
    const Tensor t = zeros(shape);
    init::uniform_(t, -bound, bound);
    return t;
  };
  weight_ih = register_parameter("weight_ih", drawn({gates * hidden_size, input_size}));
  weight_hh = register_parameter("weight_hh", drawn({gates * hidden_size, hidden_size}));
  if (!bias) return;
  bias_ih = register_parameter("bias_ih", drawn({gates * hidden_size}));
  bias_hh = register_parameter("bias_hh", drawn({gates * hidden_size}));
}

Tensor RecurrentCellBase::begin(const Tensor& state, const Tensor& x) const {
  SMOLDER_CHECK(x.dim() == 2, ValueError, "expected rows of input, got shape ", x.shape());
  const lazy::DeviceMode beside(x);
  return state.defined() ? state : zeros({x.size(0), hidden_size_}, x.dtype());
}

Tensor RNNCellImpl::forward(const Tensor& x, const Tensor& hx) const {
  const Tensor h = begin(hx, x);
  return std::get<1>(rnn_layer(x, h, weight_ih, weight_hh, bias_ih, bias_hh, {x.size(0)}, nonlinearity_));
}

std::tuple<Tensor, Tensor> LSTMCellImpl::forward(const Tensor& x, const std::tuple<Tensor, Tensor>& hx) const {
  const Tensor h = begin(std::get<0>(hx), x), c = begin(std::get<1>(hx), x);
  const auto [y, h_next, c_next] = lstm_layer(x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, {}, {x.size(0)});
  return {h_next, c_next};
}

Tensor GRUCellImpl::forward(const Tensor& x, const Tensor& hx) const {
  const Tensor h = begin(hx, x);
  return std::get<1>(gru_layer(x, h, weight_ih, weight_hh, bias_ih, bias_hh, {x.size(0)}));
}

}  // namespace smolder::nn
