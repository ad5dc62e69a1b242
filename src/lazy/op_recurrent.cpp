// The functions behind the rows of recurrent.toml. The products with the input are one for all times; what follows is a
// step at a time.
#include <functional>

#include "smolder/ir/infer.h"
#include "smolder/lazy/autocast.h"
#include "smolder/lazy/op_support.h"
#include "smolder/lazy/ops.h"

namespace smolder::lazy {
namespace {

/// Checks that a direction of a layer with `gates` gates fits together.
void check_layer(std::string_view op, const Tensor& input, const Tensor& hx, const RecurrentWeights& w, int gates,
                 const std::vector<int64_t>& batch_sizes) {
  ir::check_dtype(op, "input", input.meta(), "float");
  if (!autocasting()) {  // which makes operands of products alike
    ir::check_same_dtype(op, "input", input.meta(), "weight", w.ih.meta());
    ir::check_same_dtype(op, "input", input.meta(), "hx", hx.meta());
  }
  SMOLDER_CHECK(input.dim() == 2 && hx.dim() == 2, RuntimeError, op, ": expected rows of input and of hx, got ",
                input.shape(), " and ", hx.shape());
  SMOLDER_CHECK(w.ih.dim() == 2 && w.ih.size(1) == input.size(1) && w.ih.size(0) % gates == 0, RuntimeError, op,
                ": input has inconsistent input_size: got ", input.shape(), " for weight ", w.ih.shape());
  SMOLDER_CHECK(w.hh.dim() == 2 && w.hh.size(0) == w.ih.size(0) && w.hh.size(1) == hx.size(1), RuntimeError, op,
                ": hx ", hx.shape(), " does not fit weights ", w.ih.shape(), " and ", w.hh.shape());
  int64_t rows = 0, last = hx.size(0);
  for (const int64_t n : batch_sizes) {
    SMOLDER_CHECK(n > 0 && n <= last, RuntimeError, op,
                  ": batch_sizes should be positive and in decreasing order, got ", n, " after ", last);
    rows += last = n;
  }
  SMOLDER_CHECK(!batch_sizes.empty(), RuntimeError, op, ": expected sequence length to be larger than 0 in RNN");
  SMOLDER_CHECK(batch_sizes[0] == hx.size(0) && rows == input.size(0), RuntimeError, op, ": batch_sizes of ", rows,
                " rows do not fit input ", input.shape(), " and hx ", hx.shape());
}

Tensor first(const Tensor& x, int64_t rows) { return rows == x.size(0) ? x : slice(x, 0, 0, rows); }

/// The state that a direction carries from one time to the next: h, and c of an LSTM.
using State = std::vector<Tensor>;
/// The state after a step of some rows, out of their products with the input and their state before.
using Step = std::function<State(const Tensor& from_input, const State& state)>;

/// Sequences end one after the other going forward, and begin so in reverse. Returns every h and the last states.
std::pair<Tensor, State> over_time(const Tensor& from_input, const State& initial,
                                   const std::vector<int64_t>& batch_sizes, bool reverse, const Step& step) {
  const size_t times = batch_sizes.size();
  std::vector<int64_t> begins(times, 0);
  for (size_t t = 1; t < times; ++t) begins[t] = begins[t - 1] + batch_sizes[t - 1];
  State state = initial;
  std::vector<std::vector<Tensor>> ended(initial.size());  ///< rows of sequences that are over, the last ones first
  std::vector<Tensor> outputs(times);
  int64_t rows = reverse ? batch_sizes.back() : batch_sizes[0];
  if (reverse) {
    for (Tensor& s : state) s = first(s, rows);
  }
  for (size_t k = 0; k < times; ++k) {
    const size_t t = reverse ? times - 1 - k : k;
    const int64_t now = batch_sizes[t];
    for (size_t i = 0; i < state.size() && now != rows; ++i) {
      if (reverse) {
        state[i] = cat({state[i], slice(initial[i], 0, rows, now)}, 0);
      } else {
        ended[i].insert(ended[i].begin(), slice(state[i], 0, now, rows));
        state[i] = first(state[i], now);
      }
    }
    rows = now;
    state = step(slice(from_input, 0, begins[t], begins[t] + now), state);
    outputs[t] = state[0];
  }
  for (size_t i = 0; i < state.size(); ++i) {
    if (ended[i].empty()) continue;
    ended[i].insert(ended[i].begin(), state[i]);
    state[i] = cat(ended[i], 0);
  }
  return {times == 1 ? outputs[0] : cat(outputs, 0), state};
}

Tensor gate(const Tensor& gates, int64_t i, int64_t hidden) { return slice(gates, 1, i * hidden, (i + 1) * hidden); }

}  // namespace

std::tuple<Tensor, Tensor> rnn_layer(const Tensor& input, const Tensor& hx, const RecurrentWeights& w,
                                     const std::vector<int64_t>& batch_sizes, std::string_view nonlinearity,
                                     bool reverse) {
  check_layer("rnn", input, hx, w, 1, batch_sizes);
  SMOLDER_CHECK(nonlinearity == "tanh" || nonlinearity == "relu", ValueError, "Unknown nonlinearity '", nonlinearity,
                "'. Select from 'tanh' or 'relu'.");
  const bool rectified = nonlinearity == "relu";
  const auto [y, state] = over_time(linear(input, w.ih, w.bias_ih), {hx}, batch_sizes, reverse,
                                    [&](const Tensor& x, const State& s) -> State {
                                      const Tensor sum = x + linear(s[0], w.hh, w.bias_hh);
                                      return {rectified ? relu(sum) : tanh(sum)};
                                    });
  return {y, state[0]};
}

std::tuple<Tensor, Tensor, Tensor> lstm_layer(const Tensor& input, const Tensor& hx, const Tensor& cx,
                                              const RecurrentWeights& w, const std::vector<int64_t>& batch_sizes,
                                              bool reverse) {
  check_layer("lstm", input, hx, w, 4, batch_sizes);
  const int64_t hidden = w.ih.size(0) / 4;
  SMOLDER_CHECK(cx.shape() == (Dims{hx.size(0), hidden}), RuntimeError, "lstm: expected cx of shape ",
                (Dims{hx.size(0), hidden}), ", got ", cx.shape());
  const auto [y, state] = over_time(
      linear(input, w.ih, w.bias_ih), {hx, cx}, batch_sizes, reverse, [&](const Tensor& x, const State& s) -> State {
        const Tensor gates = x + linear(s[0], w.hh, w.bias_hh);
        const Tensor in = sigmoid(gate(gates, 0, hidden)), forget = sigmoid(gate(gates, 1, hidden));
        const Tensor cell = tanh(gate(gates, 2, hidden)), out = sigmoid(gate(gates, 3, hidden));
        const Tensor c = forget * s[1] + in * cell, h = out * tanh(c);
        return {w.hr.defined() ? linear(h, w.hr) : h, c};
      });
  return {y, state[0], state[1]};
}

std::tuple<Tensor, Tensor> gru_layer(const Tensor& input, const Tensor& hx, const RecurrentWeights& w,
                                     const std::vector<int64_t>& batch_sizes, bool reverse) {
  check_layer("gru", input, hx, w, 3, batch_sizes);
  const int64_t hidden = w.ih.size(0) / 3;
  const auto [y, state] = over_time(linear(input, w.ih, w.bias_ih), {hx}, batch_sizes, reverse,
                                    [&](const Tensor& x, const State& s) -> State {
                                      const Tensor from_h = linear(s[0], w.hh, w.bias_hh);
                                      const Tensor reset = sigmoid(gate(x, 0, hidden) + gate(from_h, 0, hidden));
                                      const Tensor keep = sigmoid(gate(x, 1, hidden) + gate(from_h, 1, hidden));
                                      const Tensor fresh = tanh(gate(x, 2, hidden) + reset * gate(from_h, 2, hidden));
                                      return {(s[0] - fresh) * keep + fresh};
                                    });
  return {y, state[0]};
}

}  // namespace smolder::lazy
