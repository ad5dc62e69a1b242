// A program of somebody else's: one header, and modules outside of our namespace.
#include <gtest/gtest.h>
#include <smolder/smolder.h>

#include <cmath>
#include <limits>
#include <sstream>

namespace theirs {

struct NetImpl : smolder::nn::Module {
  smolder::nn::Linear hidden{2, 8}, out{8, 1};
  smolder::Tensor scale;
  explicit NetImpl(float factor = 2) {
    register_module("hidden", hidden);
    register_module("out", out);
    scale = register_parameter("scale", smolder::tensor({factor}));
  }
  smolder::Tensor forward(const smolder::Tensor& x) const { return out(tanh(hidden(x))) * scale; }
};
SMOLDER_MODULE(Net);

}  // namespace theirs

namespace {

using smolder::kFloat32;
using smolder::kInt64;
using smolder::Tensor;

std::string printed(const Tensor& t) {
  std::ostringstream out;
  out << t;
  return out.str();
}

TEST(Program, MakesTensorsOfNumbers) {
  const Tensor whole = smolder::tensor({1, 2, 3}), floats = smolder::tensor({1.5, 2.0}), one = smolder::tensor(7);
  EXPECT_EQ(whole.dtype(), kInt64);
  EXPECT_EQ(floats.dtype(), kFloat32);
  EXPECT_EQ(smolder::tensor({true, false}).dtype(), smolder::kBool);
  EXPECT_EQ(smolder::tensor({1.5}, smolder::kFloat64).dtype(), smolder::kFloat64);
  EXPECT_EQ(one.dim(), 0);
  EXPECT_EQ(one.item<int>(), 7);
  const Tensor rows = smolder::tensor({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(rows.shape(), (smolder::Dims{2, 3}));
  EXPECT_EQ(rows.to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_THROW(smolder::tensor({{1, 2}, {3}}), smolder::ValueError);
  EXPECT_EQ(smolder::tensor(std::vector<uint8_t>{1, 255}).to_vector<int64_t>(), (std::vector<int64_t>{1, 255}));
}

TEST(Program, PrintsTensorsAsPythonDoes) {
  EXPECT_EQ(printed(smolder::tensor({{1.0, 2.5}, {-3.0, 4.0}})),
            "tensor([[ 1.0000,  2.5000],\n        [-3.0000,  4.0000]])");
  EXPECT_EQ(printed(smolder::tensor({1, 20})), "tensor([ 1, 20])");
  EXPECT_EQ(printed(smolder::tensor({true, false})), "tensor([ True, False])");
  EXPECT_EQ(printed(smolder::tensor({1.0}).to(smolder::kFloat16)), "tensor([1.], dtype=smolder.float16)");
  EXPECT_EQ(printed(smolder::zeros({0, 3})), "tensor([], size=(0, 3))");
  EXPECT_EQ(printed(Tensor()), "tensor(undefined)");
  EXPECT_EQ(printed(smolder::arange(2000)), "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])");
  Tensor leaf = smolder::tensor({1.0, 2.0});
  leaf.requires_grad_();
  EXPECT_EQ(printed(leaf), "tensor([1., 2.], requires_grad=True)");
  EXPECT_EQ(printed(leaf * 2), "tensor([2., 4.], grad_fn=<MulBackward0>)");
  const smolder::PrintOptions before = smolder::print_options();
  smolder::set_print_options({.precision = 1, .sci_mode = true});
  EXPECT_EQ(printed(leaf.detach()), "tensor([1.0e+00, 2.0e+00])");
  smolder::set_print_options(before);
  EXPECT_THROW(smolder::set_print_options({.precision = -1}), smolder::ValueError);
}

TEST(Program, ReadsAnElementAsAnyNumber) {
  EXPECT_EQ(smolder::tensor(2.75).item<float>(), 2.75f);
  EXPECT_EQ(smolder::tensor(2.75).item<int>(), 2);
  EXPECT_EQ(smolder::tensor(-3).item<int8_t>(), -3);
  EXPECT_TRUE(smolder::tensor(true).item<bool>());
  EXPECT_EQ(smolder::tensor(255).item<uint8_t>(), 255);
  EXPECT_EQ(smolder::tensor(std::numeric_limits<int64_t>::max()).item<int64_t>(), std::numeric_limits<int64_t>::max());
  EXPECT_TRUE(std::isinf(smolder::tensor(std::numeric_limits<double>::infinity()).item<float>()));
  // As torch's: "value cannot be converted to type int8_t without overflow".
  EXPECT_THROW(smolder::tensor(300).item<uint8_t>(), smolder::RuntimeError);
  EXPECT_THROW(smolder::tensor(-1).item<uint64_t>(), smolder::RuntimeError);
  EXPECT_THROW(smolder::tensor(1e300, smolder::kFloat64).item<float>(), smolder::RuntimeError);
  EXPECT_THROW(smolder::tensor(1e19, smolder::kFloat64).item<int64_t>(), smolder::RuntimeError);
  EXPECT_THROW(smolder::tensor(std::nan("")).item<int>(), smolder::RuntimeError);
  EXPECT_THROW(smolder::tensor({1, 2}).item<int>(), smolder::RuntimeError);
}

TEST(Program, HasModulesOutsideOfOurNamespace) {
  theirs::Net net(3.0f);
  std::vector<std::string> names;
  for (const auto& [name, t] : net->named_parameters()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"scale", "hidden.weight", "hidden.bias", "out.weight", "out.bias"}));
  // A holder, a layer of ours and a pointer, one after the other.
  smolder::nn::Sequential all(net, smolder::nn::ReLU(), std::make_shared<smolder::nn::LinearImpl>(1, 4));
  EXPECT_EQ(all(smolder::zeros({5, 2})).shape(), (smolder::Dims{5, 4}));
  EXPECT_EQ(all->parameters().size(), 7u);
}

TEST(Program, TrainsWithoutInternals) {
  smolder::manual_seed(0);
  theirs::Net net;
  smolder::optim::Adam optimizer(net->parameters(), {.lr = 0.05});
  const Tensor x = smolder::tensor({{0, 0}, {0, 1}, {1, 0}, {1, 1}}, kFloat32);
  const Tensor y = smolder::tensor({0, 1, 1, 0}, kFloat32).view({4, 1});
  const auto loss = [&] { return mse_loss(net(x), y); };
  const auto before = loss().item<float>();
  for (int step = 0; step < 100; ++step) {
    optimizer.zero_grad();
    loss().backward();
    optimizer.step();
  }
  const smolder::NoGradGuard no_gradients;
  EXPECT_FALSE(loss().requires_grad());
  EXPECT_LT(loss().item<float>(), before / 10);
}

}  // namespace
