// The engine: accumulation, freeing, retain_graph, create_graph, grad, deep graphs.
#include "smolder/autograd/engine.h"

#include <gtest/gtest.h>

#include "smolder/lazy/ops.h"
#include "smolder/lazy/record.h"

namespace smolder {
namespace {

Tensor leaf(std::vector<double> v) {
  const int64_t n = static_cast<int64_t>(v.size());
  Tensor t = Tensor::from_data(v.data(), {n}, DType::kFloat64);
  return t.requires_grad_();
}

using Doubles = std::vector<double>;

TEST(Engine, GradientsOfAFormula) {
  const Tensor x = leaf({1, 2, 3});
  sum(x * x * 2.0 + x).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (Doubles{5, 9, 13}));
}

TEST(Engine, GradientsAccumulate) {
  const Tensor x = leaf({1, 2});
  for (int i = 0; i < 3; ++i) sum(x * 3.0).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (Doubles{9, 9}));
}

TEST(Engine, ASecondBackwardNeedsRetainGraph) {
  const Tensor x = leaf({1, 2}), y = sum(x * x);
  y.backward({}, true);
  y.backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (Doubles{4, 8}));
  EXPECT_THROW(y.backward(), RuntimeError);
}

TEST(Engine, BackwardOfAVectorNeedsAGradient) {
  const Tensor x = leaf({1, 2});
  EXPECT_THROW((x * 2.0).backward(), RuntimeError);
  (x * 2.0).backward(leaf({1, 10}).detach());
  EXPECT_EQ(x.grad().to_vector<double>(), (Doubles{2, 20}));
}

TEST(Engine, SecondDerivatives) {
  const Tensor x = leaf({1, 2, 3});
  const Tensor first = autograd::grad({sum(x * x * x)}, {x}, {}, false, true)[0];
  EXPECT_EQ(first.to_vector<double>(), (Doubles{3, 12, 27}));
  const Tensor second = autograd::grad({sum(first)}, {x})[0];
  EXPECT_EQ(second.to_vector<double>(), (Doubles{6, 12, 18}));
  EXPECT_FALSE(x.grad().defined());
}

TEST(Engine, UnusedInputs) {
  const Tensor x = leaf({1}), z = leaf({2});
  EXPECT_THROW(autograd::grad({sum(x)}, {z}), RuntimeError);
  EXPECT_FALSE(autograd::grad({sum(x)}, {z}, {}, false, false, true)[0].defined());
}

TEST(Engine, NothingIsTrackedWithoutGradMode) {
  const Tensor x = leaf({1, 2});
  const lazy::GradMode off(false);
  EXPECT_FALSE((x * 2.0).requires_grad());
  EXPECT_THROW(sum(x).backward(), RuntimeError);
}

TEST(Engine, AWriteInPlaceDoesNotReachSavedValues) {
  Tensor x = leaf({1, 2, 3});
  const Tensor y = sum(x * x);
  {
    const lazy::GradMode off(false);
    x.add_(100.0);
  }
  y.backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (Doubles{2, 4, 6}));
}

TEST(Engine, InPlaceOpsAreDifferentiated) {
  const Tensor x = leaf({1, 2, 3});
  Tensor y = x * 2.0;
  y.mul_(y);
  sum(y).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (Doubles{8, 16, 24}));
}

TEST(Engine, ALeafThatRequiresGradCannotBeWritten) {
  Tensor x = leaf({1});
  EXPECT_THROW(x.add_(1.0), RuntimeError);
}

TEST(Engine, DeepGraphsNeedNoStack) {
  const Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 100000; ++i) y = y + 0.0;
  y.backward(leaf({1}).detach());
  y = Tensor();
  EXPECT_EQ(x.grad().to_vector<double>(), (Doubles{1}));
}

}  // namespace
}  // namespace smolder
