// Functions with a gradient of their own, hooks, and what is kept for backward, from C++.
#include "smolder/autograd/function.h"

#include <gtest/gtest.h>

#include "smolder/autograd/engine.h"
#include "smolder/autograd/hooks.h"
#include "smolder/autograd/saved.h"
#include "smolder/lazy/ops.h"

namespace smolder::autograd {
namespace {

Tensor leaf(std::vector<double> values) {
  Tensor t = Tensor::from_data(values.data(), {static_cast<int64_t>(values.size())}, DType::kFloat64);
  t.requires_grad_();
  return t;
}

struct ScaledCube : Function<ScaledCube> {
  static Tensor forward(FunctionContext& ctx, const Tensor& x, double scale) {
    EXPECT_FALSE(lazy::grad_enabled());
    ctx.save_for_backward({x});
    ctx.saved_data["scale"] = scale;
    return x * x * x * scale;
  }
  static std::vector<Tensor> backward(FunctionContext& ctx, const std::vector<Tensor>& grads) {
    EXPECT_TRUE(ctx.needs_input_grad(0));
    const Tensor x = ctx.saved_tensors()[0];
    return {grads[0] * x * x * (3 * std::any_cast<double>(ctx.saved_data["scale"])), {}};
  }
};

TEST(Function, HasDerivativesOfAllOrders) {
  const Tensor x = leaf({1, 2});
  const Tensor y = ScaledCube::apply(x, 0.5);
  EXPECT_EQ(gradient_edge(y).node->name(), "ScaledCubeBackward");
  const Tensor first = grad({sum(y)}, {x}, {}, false, true)[0];
  EXPECT_EQ(first.to_vector<double>(), (std::vector<double>{1.5, 6}));
  EXPECT_EQ(grad({sum(first)}, {x})[0].to_vector<double>(), (std::vector<double>{3, 6}));
  EXPECT_FALSE(ScaledCube::apply(x.detach(), 2.0).requires_grad());
}

struct Split : Function<Split> {
  static std::vector<Tensor> forward(FunctionContext& ctx, const Tensor& x) {
    const Tensor low = floor(x);
    ctx.mark_non_differentiable({low});
    return {low, x - low};
  }
  static std::vector<Tensor> backward(FunctionContext&, const std::vector<Tensor>& grads) {
    EXPECT_TRUE(grads[0].defined());  // zeros
    return {grads[0] + grads[1] * 5};
  }
};

TEST(Function, HasResultsWithoutGradient) {
  const Tensor x = leaf({1.25, 2.5});
  const std::vector<Tensor> parts = Split::apply(x);
  EXPECT_FALSE(parts[0].requires_grad());
  sum(parts[1]).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{5, 5}));
}

struct DoubleInPlace : Function<DoubleInPlace> {
  static Tensor forward(FunctionContext& ctx, Tensor x) {
    x.mul_(2);
    ctx.mark_dirty({x});
    return x;
  }
  static std::vector<Tensor> backward(FunctionContext&, const std::vector<Tensor>& grads) { return {grads[0] * 2}; }
};

TEST(Function, WritesItsArgumentsInPlace) {
  const Tensor x = leaf({1, 2, 3});
  const Tensor y = x * 1, part = slice(y, 0, 1, 3);
  const Tensor out = DoubleInPlace::apply(part);
  EXPECT_EQ(out.impl(), part.impl());
  EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{1, 4, 6}));  // the view's base has the history, too
  sum(y * y).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{2, 16, 24}));
  EXPECT_THROW(DoubleInPlace::apply(leaf({1})), RuntimeError);
}

struct DirtyAndLost : Function<DirtyAndLost> {
  static Tensor forward(FunctionContext& ctx, const Tensor& x) {
    ctx.mark_dirty({x});
    return x * 2;
  }
  static std::vector<Tensor> backward(FunctionContext&, const std::vector<Tensor>& grads) { return grads; }
};

TEST(Function, ReturnsWhatItWrote) { EXPECT_THROW(DirtyAndLost::apply(leaf({1}) * 1), RuntimeError); }

/// Backward sees which of two results have gradients.
template <bool materialize>
struct Two : Function<Two<materialize>> {
  static std::vector<Tensor> forward(FunctionContext& ctx, const Tensor& x, const Tensor& y) {
    ctx.set_materialize_grads(materialize);
    return {x * 2, y * 3};
  }
  static std::vector<Tensor> backward(FunctionContext& ctx, const std::vector<Tensor>& grads) {
    EXPECT_EQ(grads[1].defined(), materialize);
    EXPECT_TRUE(ctx.needs_input_grad(0));
    EXPECT_FALSE(ctx.needs_input_grad(1));
    EXPECT_FALSE(ctx.needs_input_grad(7));
    return {grads[0] * 2, {}};
  }
};

TEST(Function, GetsZerosOrUndefinedGradients) {
  const Tensor x = leaf({1, 2}), y = x.detach();
  sum(Two<true>::apply(x, y)[0]).backward();
  sum(Two<false>::apply(x, y)[0]).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{4, 4}));
}

struct WeightedSum : Function<WeightedSum> {
  static Tensor forward(FunctionContext& ctx, const std::vector<Tensor>& parts, double weight, const Tensor& last) {
    ctx.saved_data["weight"] = weight;
    Tensor out = last;
    for (const Tensor& t : parts) out = out + t * weight;
    return out;
  }
  static std::vector<Tensor> backward(FunctionContext& ctx, const std::vector<Tensor>& grads) {
    const double weight = std::any_cast<double>(ctx.saved_data["weight"]);
    return {grads[0] * weight, grads[0] * weight, {}, grads[0]};
  }
};

TEST(Function, TakesVectorsOfTensors) {
  const Tensor a = leaf({1}), b = leaf({2}), c = leaf({3});
  sum(WeightedSum::apply(std::vector<Tensor>{a, b}, 4.0, c)).backward();
  EXPECT_EQ(a.grad().item().to_double(), 4);
  EXPECT_EQ(b.grad().item().to_double(), 4);
  EXPECT_EQ(c.grad().item().to_double(), 1);
}

template <int kind>
struct Wrong : Function<Wrong<kind>> {
  static Tensor forward(FunctionContext&, const Tensor& x, double) { return x * 1; }
  static std::vector<Tensor> backward(FunctionContext&, const std::vector<Tensor>& grads) {
    if (kind == 0) return {grads[0]};
    if (kind == 1) return {grads[0], grads[0]};
    return {cat({grads[0], grads[0]}), {}};
  }
};

TEST(Function, ReturnsAGradientForEachArgumentInItsShape) {
  const Tensor x = leaf({1, 2});
  EXPECT_THROW(sum(Wrong<0>::apply(x, 1.0)).backward(), RuntimeError);
  EXPECT_THROW(sum(Wrong<1>::apply(x, 1.0)).backward(), RuntimeError);
  EXPECT_THROW(sum(Wrong<2>::apply(x, 1.0)).backward(), RuntimeError);
}

TEST(Function, IsFreedByBackwardUnlessRetained) {
  const Tensor x = leaf({1});
  const Tensor y = ScaledCube::apply(x, 1.0);
  y.backward({}, true);
  y.backward();
  EXPECT_THROW(y.backward(), RuntimeError);
}

TEST(Hooks, RunOnceEachAndComeOff) {
  const Tensor x = leaf({1, 2});
  Tensor y = x * 2;
  int accumulated = 0;
  HookHandle doubled = register_hook(y, [](const Tensor& g) { return g * 2; });
  register_post_accumulate_grad_hook(x, [&](const Tensor& t) { accumulated += t.grad().defined(); });
  retain_grad(y);
  sum(y).backward({}, true);
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{4, 4}));
  EXPECT_EQ(y.grad().to_vector<double>(), (std::vector<double>{2, 2}));
  doubled.remove();
  sum(y).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{6, 6}));
  EXPECT_EQ(accumulated, 2);
}

TEST(Versions, AreCheckedWhenAskedFor) {
  const Tensor x = leaf({1, 2});
  const auto clobbered = [&] {
    Tensor y = x * 1;
    const Tensor z = y * y;
    y.add_(1);
    return z;
  };
  sum(clobbered()).backward();
  set_version_checks(true);
  const Tensor checked = clobbered();
  set_version_checks(false);
  EXPECT_THROW(sum(checked).backward(), RuntimeError);
}

/// A chain of custom nodes, each keeping what the one before it computed.
TEST(Function, ChainsAreDeeperThanStacks) {
  const Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 100000; ++i) y = ScaledCube::apply(y, 1.0);
  sum(y).backward({}, true);
  y = Tensor();
  EXPECT_TRUE(x.grad().defined());
}

}  // namespace
}  // namespace smolder::autograd
