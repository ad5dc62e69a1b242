// Modules over images: names, initial values, statistics, and that a net of them learns.
#include "smolder/nn/spatial.h"

#include <gtest/gtest.h>

#include <cmath>

#include "smolder/lazy/ops.h"
#include "smolder/lazy/random.h"
#include "smolder/lazy/record.h"
#include "smolder/nn/modules.h"
#include "smolder/nn/optim.h"
#include "smolder/nn/resampling.h"

namespace smolder {
namespace {

std::vector<std::string> names(const nn::Module& module) {
  std::vector<std::string> out;
  for (const auto& [name, t] : module.state_dict()) out.push_back(name);
  return out;
}

Tensor column(const std::vector<float>& values) {
  return Tensor::from_data(values.data(), {static_cast<int64_t>(values.size()), 1}, DType::kFloat32);
}

bool allclose_to(const Tensor& a, const Tensor& b) {
  return all(isclose(a, b, 1e-5, 1e-5)).to(DType::kInt64).to_vector<int64_t>()[0] == 1;
}

TEST(Spatial, StateIsNamedAsTorchs) {
  EXPECT_EQ(names(*nn::Conv2d(2, 4, 3)), (std::vector<std::string>{"weight", "bias"}));
  EXPECT_EQ(names(*nn::Conv2d(2, 4, 3, nn::ConvOptions{.bias = false})), std::vector<std::string>{"weight"});
  EXPECT_EQ(names(*nn::BatchNorm2d(4)),
            (std::vector<std::string>{"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}));
  EXPECT_EQ(names(*nn::GroupNorm(2, 4)), (std::vector<std::string>{"weight", "bias"}));
}

TEST(Spatial, WeightsHaveTorchsShapesAndBounds) {
  const nn::Conv2d conv(8, 100, 5, nn::ConvOptions{.groups = 2});
  EXPECT_EQ(conv->weight.shape(), (Dims{100, 4, 5, 5}));
  double largest = 0;
  for (float v : conv->weight.to_vector<float>()) largest = std::max(largest, std::abs(static_cast<double>(v)));
  EXPECT_LE(largest, 0.1);  // 1 / sqrt(4 * 25)
  EXPECT_GT(largest, 0.09);
  EXPECT_EQ(nn::ConvTranspose2d(4, 6, Axes{3, 2}, nn::ConvOptions{.groups = 2})->weight.shape(), (Dims{4, 3, 3, 2}));
  EXPECT_THROW(nn::Conv1d(3, 4, 3, nn::ConvOptions{.groups = 2}), ValueError);
  EXPECT_THROW(nn::GroupNorm(3, 4), ValueError);
}

TEST(Spatial, ShapesOfConvolutionsAndPools) {
  const Tensor x = randn({2, 4, 9, 8}), signal = randn({2, 4, 9});
  EXPECT_EQ(nn::Conv2d(4, 6, 3, nn::ConvOptions{.stride = {2, 1}, .padding = 1})(x).shape(), (Dims{2, 6, 5, 8}));
  EXPECT_EQ(nn::Conv2d(4, 6, 4, nn::ConvOptions{.same = true})(x).shape(), (Dims{2, 6, 9, 8}));
  EXPECT_EQ(nn::Conv1d(4, 6, 3)(signal).shape(), (Dims{2, 6, 7}));
  EXPECT_EQ(nn::ConvTranspose2d(4, 6, 3, nn::ConvOptions{.stride = 2, .output_padding = 1})(x).shape(),
            (Dims{2, 6, 20, 18}));
  EXPECT_EQ(nn::MaxPool2d(2)(x).shape(), (Dims{2, 4, 4, 4}));
  EXPECT_EQ(nn::AvgPool2d(3, nn::PoolOptions{.stride = 2, .ceil_mode = true})(x).shape(), (Dims{2, 4, 4, 4}));
  EXPECT_EQ(nn::MaxPool1d(2)(signal).shape(), (Dims{2, 4, 4}));
  EXPECT_EQ(nn::AdaptiveAvgPool2d(Axes{4, 3})(x).shape(), (Dims{2, 4, 4, 3}));
}

TEST(Spatial, AConvolutionSumsItsWindows) {
  const Tensor x = arange(9).to(DType::kFloat32).view({1, 1, 3, 3});
  EXPECT_EQ(conv2d(x, ones({1, 1, 2, 2})).to_vector<float>(), (std::vector<float>{8, 12, 20, 24}));
  EXPECT_EQ(conv_transpose2d(conv2d(x, ones({1, 1, 2, 2})), ones({1, 1, 2, 2})).to_vector<float>(),
            (std::vector<float>{8, 20, 12, 28, 64, 36, 20, 44, 24}));
}

TEST(Spatial, BatchNormKeepsRunningStatistics) {
  for (const std::optional<double> momentum : {std::optional<double>(0.5), std::optional<double>()}) {
    nn::BatchNorm1d norm(1, nn::BatchNormOptions{.momentum = momentum});
    norm(column({1, 3}));
    norm(column({5, 7}));
    // Batch means 2 and 6, variances over n - 1 both 2.
    EXPECT_FLOAT_EQ(norm->running_mean.to_vector<float>()[0], momentum ? 3.5f : 4.0f);
    EXPECT_FLOAT_EQ(norm->running_var.to_vector<float>()[0], momentum ? 1.75f : 2.0f);
    EXPECT_EQ(norm->num_batches_tracked.to_vector<int64_t>()[0], 2);
    norm->eval();
    const float y = norm(column({4})).to_vector<float>()[0];
    EXPECT_NEAR(y, momentum ? 0.5 / std::sqrt(1.75) : 0.0, 1e-5);
  }
  EXPECT_THROW(nn::BatchNorm2d(3)(zeros({2, 3})), ValueError);
}

TEST(Spatial, AnEmptyBatchLeavesRunningStatistics) {
  for (const std::optional<double> momentum : {std::optional<double>(0.5), std::optional<double>()}) {
    nn::BatchNorm1d norm(1, nn::BatchNormOptions{.momentum = momentum});
    norm(column({1, 3}));
    const std::vector<float> before = norm->running_mean.to_vector<float>();
    EXPECT_EQ(norm(zeros({0, 1})).numel(), 0);
    EXPECT_EQ(norm->running_mean.to_vector<float>(), before);
    EXPECT_FALSE(std::isnan(norm->running_var.to_vector<float>()[0]));
  }
}

TEST(Spatial, VolumesAreConvolvedAndPooled) {
  const Tensor x = arange(27).to(DType::kFloat32).view({1, 1, 3, 3, 3});
  const Tensor sums = conv3d(x, ones({1, 1, 2, 2, 2}));
  EXPECT_EQ(sums.to_vector<float>(), (std::vector<float>{52, 60, 76, 84, 124, 132, 148, 156}));
  EXPECT_EQ(nn::MaxPool3d(2, nn::PoolOptions{.stride = 1})(x).to_vector<float>(),
            (std::vector<float>{13, 14, 16, 17, 22, 23, 25, 26}));
  EXPECT_TRUE(allclose_to(nn::AvgPool3d(2, nn::PoolOptions{.stride = 1})(x), sums / 8));
  EXPECT_EQ(nn::AdaptiveMaxPool3d(Axes{1, 2, 3})(x).shape(), (Dims{1, 1, 1, 2, 3}));
  EXPECT_EQ(nn::Conv3d(1, 4, Axes{1, 2, 3}, nn::ConvOptions{.stride = {1, 2, 1}})(x).shape(), (Dims{1, 4, 3, 1, 1}));
  EXPECT_EQ(nn::ConvTranspose3d(1, 2, 2, nn::ConvOptions{.stride = 2})(x).shape(), (Dims{1, 2, 6, 6, 6}));
  EXPECT_EQ(nn::BatchNorm3d(1)(x).shape(), x.shape());
}

TEST(Spatial, InstancesAreNormalisedByThemselves) {
  const Tensor x = randn({2, 3, 8, 8}) * 5 + 2;
  const Tensor y = nn::InstanceNorm2d(3)(x);
  EXPECT_TRUE(allclose_to(mean(y, Axes{2, 3}), zeros({2, 3})));
  EXPECT_TRUE(allclose_to(nn::InstanceNorm2d(3)(select(x, 0, 1)), select(y, 0, 1)));
  EXPECT_EQ(names(*nn::InstanceNorm1d(3)), std::vector<std::string>{});
  EXPECT_THROW(nn::InstanceNorm2d(4, nn::InstanceNormOptions{.affine = true})(x), ValueError);
  EXPECT_THROW(nn::InstanceNorm3d(3)(zeros({2, 3})), ValueError);
}

TEST(Spatial, OtherSizesAndPads) {
  const Tensor x = arange(4).to(DType::kFloat32).view({1, 1, 2, 2});
  EXPECT_EQ(nn::Upsample(nn::UpsampleOptions{.scale_factor = {2}})(x).to_vector<float>(),
            (std::vector<float>{0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3, 2, 2, 3, 3}));
  EXPECT_EQ(nn::Upsample(nn::UpsampleOptions{.size = {1, 3}, .mode = "bilinear", .align_corners = true})(x)
                .to_vector<float>(),
            (std::vector<float>{0, 0.5, 1}));
  EXPECT_THROW(nn::Upsample(nn::UpsampleOptions{}), ValueError);
  EXPECT_EQ(nn::PixelShuffle(2)(zeros({4, 2, 3})).shape(), (Dims{1, 4, 6}));
  EXPECT_EQ(nn::PixelUnshuffle(2)(zeros({1, 4, 6})).shape(), (Dims{4, 2, 3}));
  EXPECT_EQ(nn::ReflectionPad2d(1)(x).to_vector<float>(),
            (std::vector<float>{3, 2, 3, 2, 1, 0, 1, 0, 3, 2, 3, 2, 1, 0, 1, 0}));
  EXPECT_EQ(nn::ZeroPad2d(Dims{1, 0, 0, 0})(x).to_vector<float>(), (std::vector<float>{0, 0, 1, 0, 2, 3}));
  EXPECT_THROW(nn::ReplicationPad3d(Dims{1, 2}), ValueError);
}

TEST(Spatial, DropoutOfSignalsTakesOneSampleToo) {
  const Tensor sums = sum(nn::Dropout1d(0.5)(ones({200, 4})), 1);
  int dropped = 0;
  for (float v : sums.to_vector<float>()) {
    EXPECT_TRUE(v == 0 || v == 8) << v;
    dropped += v == 0;
  }
  EXPECT_NEAR(dropped, 100, 40);
}

TEST(Spatial, DropoutOfChannelsTakesThemWhole) {
  nn::Dropout2d dropout(0.5);
  const Tensor sums = sum(dropout(ones({20, 10, 2, 2})), Axes{2, 3});
  int dropped = 0;
  for (float v : sums.to_vector<float>()) {
    EXPECT_TRUE(v == 0 || v == 8) << v;
    dropped += v == 0;
  }
  EXPECT_NEAR(dropped, 100, 40);
}

TEST(Spatial, AConvolutionalNetLearns) {
  manual_seed(0);
  nn::Sequential net(nn::Conv2d(1, 8, 3, nn::ConvOptions{.padding = 1}), nn::BatchNorm2d(8), nn::ReLU(),
                     nn::MaxPool2d(2), nn::Conv2d(8, 8, 3), nn::ReLU(), nn::AdaptiveAvgPool2d(1));
  nn::Linear head(8, 2);
  // Images with stripes along one axis or the other.
  const Tensor stripes = remainder(arange(8), 2).to(DType::kFloat32);
  const Tensor rows = expand(stripes.view({8, 1}), {8, 8}), columns = expand(stripes.view({1, 8}), {8, 8});
  const Tensor x = reshape(cat({expand(rows, {8, 8, 8}), expand(columns, {8, 8, 8})}, 0), {16, 1, 8, 8});
  const Tensor noisy = x + randn(x.shape()) * 0.1, labels = cat({zeros({8}), ones({8})}, 0).to(DType::kInt64);
  std::vector<Tensor> parameters = net->parameters();
  for (const Tensor& p : head->parameters()) parameters.push_back(p);
  optim::AdamW optimizer(parameters, {.lr = 1e-2});
  double first = 0, last = 0;
  for (int i = 0; i < 30; ++i) {
    const Tensor loss = cross_entropy(head(flatten(net(noisy), 1)), labels);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    mark_step();
    last = loss.item().to_double();
    if (i == 0) first = last;
  }
  EXPECT_LT(last, first / 4);
}

}  // namespace
}  // namespace smolder
