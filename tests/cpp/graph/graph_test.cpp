#include "smolder/graph/graph.h"

#include <gtest/gtest.h>

#include "smolder/autograd/engine.h"
#include "smolder/core/counters.h"
#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/random.h"
#include "smolder/nn/modules.h"

namespace smolder {
namespace {

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

template <class E, class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "nothing was thrown";
}

Tensor numbers(Dims shape) {
  std::vector<float> data(static_cast<size_t>(numel(shape)));
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i % 17) / 8 - 1;
  return Tensor::from_data(data.data(), shape, DType::kFloat32);
}

std::vector<float> bits(const Tensor& t) { return t.to_vector<float>(); }

TEST(Graph, RunsWhatWasCaptured) {
  const Tensor w = numbers({4, 3});
  const auto fn = [&](const std::vector<Tensor>& in) {
    const Tensor h = relu(matmul(in[0], w)) * 2.0 + 1;
    return std::vector<Tensor>{h, sum(h, 1), in[0]};
  };
  const Graph g = capture(fn, {numbers({5, 4})}, {.weights = {{"w", w}}, .input_names = {"x"}});
  EXPECT_EQ(g.input_names(), std::vector<std::string>{"x"});
  ASSERT_EQ(g.weights().size(), 1u);
  EXPECT_EQ(g.weights()[0].first, "w");
  const Tensor x = neg(numbers({5, 4}));
  for (int i = 0; i < 3; ++i) {
    const std::vector<Tensor> expected = fn({x}), found = g.run({x});
    ASSERT_EQ(found.size(), 3u);
    for (size_t k = 0; k < 3; ++k) EXPECT_EQ(bits(found[k]), bits(expected[k]));
  }
}

TEST(Graph, PrintsAndParses) {
  const Tensor w = numbers({4, 3});
  const Graph g = capture(
      [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{relu(matmul(in[0], w)) * 2.0}; },
      {numbers({5, 4})},
      {.weights = {{"fc.weight", w}}, .input_names = {"x"}, .output_names = {"y"}, .dynamic_shapes = {{{0, "batch"}}}});
  EXPECT_EQ(g.to_string(),
            "smolder.graph 1\n"
            "input \"x\"\n"
            "weight \"fc.weight\"\n"
            "output \"y\"\n"
            "size \"batch\"\n"
            "symbols s0=5\n"
            "%0 = leaf(number=0, offset=0, strides=[]) : float32[s0, 4]\n"
            "%1 = leaf(number=1, offset=0, strides=[]) : float32[4, 3]\n"
            "%2 = matmul(%0, %1) : float32[s0, 3]\n"
            "%3 = relu(%2) : float32[s0, 3]\n"
            "%4 = constant(2.0) : weak float64[]\n"
            "%5 = mul(%3, %4) : float32[s0, 3]\n"
            "return %5\n");
  const Graph again = Graph::parse(g.to_string());
  EXPECT_EQ(again.to_string(), g.to_string());
  EXPECT_THROW(again.run({numbers({5, 4})}), RuntimeError) << "no weights are bound";
  EXPECT_EQ(bits(again.bind({{"fc.weight", w}}).run({numbers({7, 4})})[0]), bits(g.run({numbers({7, 4})})[0]));
}

TEST(Graph, TakesOtherSizes) {
  const auto fn = [](const std::vector<Tensor>& in) {
    const Tensor &x = in[0], &y = in[1];
    const int64_t b = x.size(0), t = x.size(1);
    const Tensor flat = reshape(x, {b * t / 2, 2 * x.size(2)});
    const Tensor back = reshape(flat, {b, t, -1}) + arange(static_cast<double>(t)).to(DType::kFloat32).unsqueeze(-1);
    return std::vector<Tensor>{back / static_cast<double>(3) * b, cat({y, y}, 0) * (b * t + 1), slice(x, 1, t / 2, t)};
  };
  const Graph g = capture(fn, {numbers({3, 8, 4}), numbers({3, 2})}, {.dynamic_shapes = {{{0, "b"}}, {{0, "b"}}}});
  for (const int64_t b : {1, 2, 3, 16}) {
    const std::vector<Tensor> in{numbers({b, 8, 4}), numbers({b, 2})};
    const std::vector<Tensor> expected = fn(in), found = g.run(in);
    for (size_t k = 0; k < expected.size(); ++k) {
      EXPECT_EQ(found[k].shape(), expected[k].shape());
      EXPECT_EQ(bits(found[k]), bits(expected[k])) << b << ", result " << k;
    }
  }
  EXPECT_SAYS(message_of<RuntimeError>([&] { g.run({numbers({3, 9, 4}), numbers({3, 2})}); }), "dimension 1 is fixed");
  EXPECT_SAYS(message_of<RuntimeError>([&] { g.run({numbers({3, 8, 4}), numbers({4, 2})}); }), "was 3 before");
  EXPECT_SAYS(message_of<TypeError>([&] { g.run({numbers({3, 8, 4})}); }), "takes 2 tensors");
  EXPECT_SAYS(message_of<TypeError>([&] { g.run({numbers({3, 8, 4}).to(DType::kFloat64), numbers({3, 2})}); }),
              "'input_0' is float32, got float64");
}

TEST(Graph, SizesThatDecideWhatIsDoneAreRefused) {
  const auto branches = [](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{in[0].size(0) > 6 ? relu(in[0]) : neg(in[0])};
  };
  const std::string what =
      message_of<RuntimeError>([&] { capture(branches, {numbers({4, 2})}, {.dynamic_shapes = {{{0, "n"}}}}); });
  EXPECT_SAYS(what, "the function is another program");
  EXPECT_SAYS(what, "relu");
  const auto one = [](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{in[0].size(0) == 1 ? relu(in[0]) : neg(in[0])};
  };
  const Graph g = capture(one, {numbers({4, 2})}, {.dynamic_shapes = {{{0, "n"}}}});
  EXPECT_EQ(g.run({numbers({2, 2})})[0].numel(), 4);
  EXPECT_SAYS(message_of<RuntimeError>([&] { g.run({numbers({1, 2})}); }), "n > 1");
}

TEST(Graph, OnlyPureFunctionsAreCaptured) {
  const Tensor w = numbers({2});
  const auto capture_of = [&](const CaptureFunction& fn) {
    return message_of<RuntimeError>([&] { capture(fn, {numbers({2})}, {.weights = {{"w", w}}}); });
  };
  EXPECT_SAYS(capture_of([](const std::vector<Tensor>& in) {
                Tensor x = in[0];
                x.add_(1);
                return std::vector<Tensor>{x};
              }),
              "writes to its input 'input_0'");
  EXPECT_SAYS(capture_of([&](const std::vector<Tensor>& in) {
                Tensor(w).add_(1);
                return std::vector<Tensor>{in[0]};
              }),
              "writes to the weight 'w'");
  EXPECT_EQ(bits(w), bits(numbers({2}))) << "what was written is given back";
  EXPECT_SAYS(capture_of([&](const std::vector<Tensor>& in) {
                return std::vector<Tensor>{in[0] * sum(in[0]).item().to_double()};
              }),
              "needs values while the function is recorded");
  Tensor own;
  const Graph g = capture(
      [&](const std::vector<Tensor>& in) {
        Tensor y = in[0] * 2;
        y.add_(1);
        return std::vector<Tensor>{y};
      },
      {numbers({2})});
  EXPECT_EQ(bits(g.run({numbers({2})})[0]), bits(numbers({2}) * 2 + 1)) << "its own tensors it may write to";
}

TEST(Graph, RandomNumbersAreDrawnAtEachRun) {
  const auto fn = [](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{dropout(in[0], 0.5, true) + rand({in[0].size(0), 4})};
  };
  manual_seed(3);
  const std::pair<uint64_t, uint64_t> before = default_generator().state();
  const Graph g = capture(fn, {numbers({3, 4})}, {.dynamic_shapes = {{{0, "n"}}}});
  EXPECT_EQ(default_generator().state(), before) << "capture draws nothing";
  for (const int64_t n : {3, 5, 3}) {
    const Tensor x = numbers({n, 4});
    manual_seed(7);
    const Tensor expected = fn({x})[0], next = fn({x})[0];
    manual_seed(7);
    EXPECT_EQ(bits(g.run({x})[0]), bits(expected));
    EXPECT_EQ(bits(g.run({x})[0]), bits(next));
  }
}

TEST(Graph, RunningAgainCompilesNothing) {
  const nn::Linear fc(6, 5);
  const Graph g = capture([&](const std::vector<Tensor>& in) { return std::vector<Tensor>{tanh(fc(in[0]))}; },
                          {numbers({4, 6})}, {.weights = fc->state_dict(), .dynamic_shapes = {{{0, "n"}}}});
  EXPECT_EQ(g.weights()[0].first, "weight");
  g.run({numbers({4, 6})})[0].materialize();
  g.run({numbers({7, 6})})[0].materialize();
  const int64_t before = counter("plans.compiled").value();
  for (int i = 0; i < 5; ++i) g.run({numbers({4 + 3 * (i % 2), 6})})[0].materialize();
  EXPECT_EQ(counter("plans.compiled").value(), before);
}

TEST(Graph, TensorsThatTheFunctionReadsAreWeights) {
  const Tensor hidden = numbers({3});
  const float data[] = {1, 2, 3};
  const Graph g = capture(
      [&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{in[0] * hidden + Tensor::from_data(data, {3}, DType::kFloat32)};
      },
      {numbers({2, 3})}, {.dynamic_shapes = {{{0, "n"}}}});
  ASSERT_EQ(g.weights().size(), 2u);
  EXPECT_EQ(g.weights()[0].first, "constant_0");
  EXPECT_EQ(bits(g.run({numbers({4, 3})})[0]),
            bits(numbers({4, 3}) * hidden + Tensor::from_data(data, {3}, DType::kFloat32)));
}

TEST(Graph, RunsHaveHistory) {
  Tensor w = numbers({4, 3}).requires_grad_();
  const auto fn = [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{sum(tanh(matmul(in[0], w)))}; };
  const Graph g = capture(fn, {numbers({5, 4})}, {.weights = {{"w", w}}});
  fn({numbers({5, 4})})[0].backward();
  const std::vector<float> expected = bits(w.grad());
  for (int i = 0; i < 2; ++i) {
    w.set_grad({});
    g.run({numbers({5, 4})})[0].backward();
    EXPECT_EQ(bits(w.grad()), expected);
  }
}

TEST(Graph, IsWalked) {
  const Tensor w = numbers({4, 3});
  const Graph g = capture(
      [&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{sum(reshape(matmul(in[0], w), {in[0].size(0) * 3}), 0)};
      },
      {numbers({5, 4})}, {.dynamic_shapes = {{{0, "batch"}}}});
  const std::vector<GraphNode> nodes = g.nodes();
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[0].op, "matmul");
  EXPECT_EQ(nodes[0].inputs, (std::vector<std::string>{"%0", "%1"}));
  EXPECT_EQ(nodes[0].outputs[0].shape, (std::vector<std::string>{"batch", "3"}));
  EXPECT_EQ(nodes[1].attributes, (std::vector<std::pair<std::string, std::string>>{{"shape", "[3*batch]"}}));
  EXPECT_EQ(nodes[2].attributes[0].second, "[0]");
  EXPECT_EQ(nodes[2].outputs[0].dtype, DType::kFloat32);
  EXPECT_EQ(g.inputs()[0].shape, (std::vector<std::string>{"batch", "4"}));
}

TEST(Graph, IsRewritten) {
  const Graph before = capture([](const std::vector<Tensor>& in) { return std::vector<Tensor>{relu(in[0]) * 2.0}; },
                               {numbers({5, 4})}, {.dynamic_shapes = {{{0, "n"}}}});
  Graph g = before;
  g.replace_node(g.nodes()[0].name(), "tanh", {value("%0")});
  EXPECT_EQ(bits(g.run({numbers({3, 4})})[0]), bits(tanh(numbers({3, 4})) * 2.0));
  const std::string t = g.insert("", "transpose", {value(g.outputs()[0].name), 0, 1})[0];
  g.replace(g.nodes()[1].name(), t);
  EXPECT_EQ(g.outputs()[0].shape, (std::vector<std::string>{"4", "n"}));
  EXPECT_EQ(bits(g.run({numbers({3, 4})})[0]), bits(transpose(tanh(numbers({3, 4})) * 2.0, 0, 1)));
  EXPECT_EQ(bits(before.run({numbers({3, 4})})[0]), bits(relu(numbers({3, 4})) * 2.0)) << "a copy is another";
  EXPECT_SAYS(message_of<ValueError>([&] { g.erase("%1"); }), "cannot erase %1 (tanh): %3 (mul) reads it");
  EXPECT_SAYS(message_of<ValueError>([&] { g.erase("%99"); }), "no value '%99'");
  EXPECT_SAYS(message_of<ValueError>([&] { g.insert("", "no_such_op", {}); }), "no op called 'no_such_op'");
  EXPECT_SAYS(message_of<RuntimeError>([&] { g.insert("", "matmul", {value("%0"), value("%0")}); }), "(matmul)");
  EXPECT_SAYS(message_of<ValueError>([&] { g.insert("%1", "relu", {value(t)}); }), "not before it");
  g.insert("", "exp", {value("%0")});
  EXPECT_EQ(g.nodes().size(), 4u);
  EXPECT_EQ(g.eliminate_dead(), 1);
  EXPECT_EQ(g.nodes().size(), 3u);
}

TEST(Graph, IsDifferentiated) {
  Tensor w = numbers({4, 3}).requires_grad_();
  const auto fn = [&](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{tanh(matmul(in[0], w)), in[0] * in[0]};
  };
  const Graph g =
      capture(fn, {numbers({5, 4})}, {.weights = {{"w", w}}, .input_names = {"x"}, .dynamic_shapes = {{{0, "n"}}}});
  const Graph d = g.differentiate({"x", "w"}, true);
  EXPECT_EQ(d.input_names(), (std::vector<std::string>{"x", "grad_output_0", "grad_output_1"}));
  EXPECT_EQ(d.output_names(), (std::vector<std::string>{"output_0", "output_1", "grad_x", "grad_w"}));
  for (const int64_t n : {5, 2}) {
    Tensor x = numbers({n, 4}).requires_grad_();
    const std::vector<Tensor> given{neg(numbers({n, 3})), numbers({n, 4})}, out = fn({x});
    w.set_grad({});
    autograd::backward(out, given);
    const std::vector<Tensor> found = d.run({x, given[0], given[1]});
    EXPECT_EQ(bits(found[0]), bits(out[0]));
    EXPECT_EQ(bits(found[2]), bits(x.grad()));
    EXPECT_EQ(bits(found[3]), bits(w.grad()));
  }
  const Graph loss = capture(
      [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{sum(in[0] * in[0] * in[0])}; }, {numbers({3})});
  EXPECT_EQ(bits(loss.differentiate().run({numbers({3})})[0]), bits(numbers({3}) * numbers({3}) * 3));
  EXPECT_EQ(bits(loss.differentiate().differentiate().run({numbers({3}), ones({3})})[0]), bits(numbers({3}) * 6));
  EXPECT_SAYS(message_of<ValueError>([&] { g.differentiate({"y"}); }), "no input or weight 'y'");
}

}  // namespace
}  // namespace smolder
