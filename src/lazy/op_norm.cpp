// The functions behind the rows of normalization.toml.
#include "smolder/ir/decompose.h"
#include "smolder/lazy/op_support.h"
#include "smolder/lazy/ops.h"

namespace smolder::lazy {
namespace {

/// The numbers of channels as something that broadcasts to an input of `rank` dimensions.
Tensor by_channel(const Tensor& t, int rank) {
  Dims shape = Dims::filled(rank, 1);
  shape[1] = t.size(0);
  return reshape(t, shape);
}

void check_statistics(const Tensor& input, const NormArguments& a) {
  SMOLDER_CHECK(input.dim() >= 2, RuntimeError, "Expected at least 2 dimensions for input tensor but received ",
                input.dim());
  const std::pair<std::string_view, const Tensor&> given[] = {
      {"running_mean", a.running_mean}, {"running_var", a.running_var}, {"weight", a.weight}, {"bias", a.bias}};
  for (const auto& [name, t] : given) {
    SMOLDER_CHECK(!t.defined() || (t.dim() == 1 && t.size(0) == input.size(1)), RuntimeError, name, " should contain ",
                  input.size(1), " elements not ", t.numel());
  }
}

Tensor affine(const Tensor& normal, const Tensor& weight, const Tensor& bias) {
  Tensor y = normal;
  if (weight.defined()) y = y * by_channel(weight, y.dim());
  if (bias.defined()) y = y + by_channel(bias, y.dim());
  return y;
}

/// Normalised by the running statistics, in the compute type.
Tensor by_running(const Tensor& input, const NormArguments& a) {
  SMOLDER_CHECK(a.running_mean.defined(), RuntimeError, "running_mean must be defined in evaluation mode");
  SMOLDER_CHECK(a.running_var.defined(), RuntimeError, "running_var must be defined in evaluation mode");
  const DType wide = compute_type(input.dtype());
  const Tensor x = input.to(wide), mean = a.running_mean.to(wide), rstd = rsqrt(a.running_var.to(wide) + a.eps);
  const Tensor normal = (x - by_channel(mean, x.dim())) * by_channel(rstd, x.dim());
  return in_format_of(affine(normal, a.weight, a.bias).to(input.dtype()), input);
}

/// Moves a running tensor towards what a batch gave.
void move_running(const Tensor& running, const Tensor& batch, Scalar momentum) {
  const GradMode off(false);
  assign(running, (running * (1 - momentum.to_double()) + batch * momentum.to_double()).to(running.dtype()));
}

/// Moves the running statistics towards those of a batch, which are the same sums as the normalisation's: the compiler
/// forms them once. `of` makes one number a channel of what was reduced.
void move_statistics(const Tensor& input, const NormArguments& a, auto of) {
  SMOLDER_CHECK(a.running_mean.defined() == a.running_var.defined(), ValueError,
                "running_mean and running_var must either both be None or neither be None");
  if (!a.running_mean.defined()) return;
  if (input.numel() == 0) return;  // a batch without elements says nothing of statistics
  const Tensor x = input.detach().to(compute_type(input.dtype()));
  const Dims axes = ir::channel_axes(x.dim());
  move_running(a.running_mean, of(mean(x, axes)), a.momentum);
  move_running(a.running_var, of(var(x, axes, 1)), a.momentum);
}

}  // namespace

Tensor batch_norm(const Tensor& input, const NormArguments& a, bool training) {
  check_statistics(input, a);
  ir::check_dtype("batch_norm", "input", input.meta(), "float");
  SMOLDER_CHECK(a.eps.to_double() > 0, ValueError, "batch_norm eps must be positive, but got ", a.eps.to_double());
  if (!training) return by_running(input, a);
  const int64_t channels = input.size(1), n = channels == 0 ? 0 : input.numel() / channels;
  SMOLDER_CHECK(n != 1, ValueError, "Expected more than 1 value per channel when training, got input size ",
                input.shape());
  move_statistics(input, a, [](const Tensor& t) { return t; });
  return batch_norm_train(input, a.weight, a.bias, a.eps);
}

Tensor instance_norm(const Tensor& input, const NormArguments& a, bool use_input_stats) {
  check_statistics(input, a);
  ir::check_dtype("instance_norm", "input", input.meta(), "float");
  SMOLDER_CHECK(use_input_stats || (a.running_mean.defined() && a.running_var.defined()), RuntimeError,
                "Expected running_mean and running_var to be defined when use_input_stats is false");
  if (!use_input_stats) return by_running(input, a);
  int64_t n = 1;
  for (int i = 2; i < input.dim(); ++i) n *= input.size(i);
  SMOLDER_CHECK(n != 1, ValueError, "Expected more than 1 spatial element when training, got input size ",
                input.shape());
  // Each channel of each image is a channel of one image.
  const int64_t images = input.size(0), channels = input.size(1);
  Dims shape = input.shape();
  shape[0] = 1;
  shape[1] = images * channels;
  const Tensor x = reshape(input, shape);
  move_statistics(x, a, [&](const Tensor& t) { return mean(reshape(t, {images, channels}), 0); });
  const Tensor normal = batch_norm_train(x, {}, {}, a.eps);
  return affine(reshape(normal, input.shape()), a.weight, a.bias).to(input.dtype());
}

Tensor group_norm(const Tensor& input, int64_t num_groups, const Tensor& weight, const Tensor& bias, Scalar eps) {
  SMOLDER_CHECK(input.dim() >= 2, RuntimeError, "Expected at least 2 dimensions for input tensor but received ",
                input.dim());
  ir::check_dtype("group_norm", "input", input.meta(), "float");
  SMOLDER_CHECK(num_groups > 0, RuntimeError, "Expected num groups to be greater than 0, got ", num_groups);
  const int64_t channels = input.size(1);
  Dims grouped = input.shape();  // what is normalised as a batch of num_groups channels
  grouped[0] = input.size(0) * channels / num_groups;
  grouped[1] = num_groups;
  SMOLDER_CHECK(numel(grouped) != num_groups, ValueError,
                "Expected more than 1 value per channel when training, got input size ", grouped);
  SMOLDER_CHECK(channels % num_groups == 0, RuntimeError,
                "Expected number of channels in input to be divisible by num_groups, but got input of shape ",
                input.shape(), " and num_groups=", num_groups);
  for (const auto& [name, t] : {std::pair<std::string_view, const Tensor&>{"weight", weight}, {"bias", bias}}) {
    SMOLDER_CHECK(!t.defined() || (t.dim() == 1 && t.size(0) == channels), RuntimeError, "Expected ", name,
                  " to be a vector of size equal to the number of channels in input, but got ", name, " of shape ",
                  t.shape(), " and input of shape ", input.shape());
  }
  if (input.numel() == 0) return affine(input, weight, bias).to(input.dtype());
  const int64_t groups = input.size(0) * num_groups, n = input.numel() / groups;
  // In the compute type, so that halves are rounded once.
  const Tensor normal = layer_norm(reshape(input.to(compute_type(input.dtype())), {groups, n}), {n}, {}, {}, eps);
  return in_format_of(affine(reshape(normal, input.shape()), weight, bias).to(input.dtype()), input);
}

Tensor rms_norm(const Tensor& input, const Dims& normalized_shape, const Tensor& weight, std::optional<double> eps) {
  ir::check_dtype("rms_norm", "input", input.meta(), "float");
  const ir::Meta given = input.meta();
  ir::check_layer_norm("rms_norm", given, normalized_shape, nullptr, nullptr);
  SMOLDER_CHECK(!weight.defined() || weight.shape() == normalized_shape, RuntimeError,
                "Expected weight to be of same shape as normalized_shape, but got weight of shape ", weight.shape(),
                " and normalized_shape = ", normalized_shape);
  const DType wide = compute_type(input.dtype());
  const double smallest = wide == DType::kFloat64 ? std::numeric_limits<double>::epsilon()
                                                  : static_cast<double>(std::numeric_limits<float>::epsilon());
  const Tensor x = input.to(wide);
  const Tensor square = mean(x * x, ir::last_axes(normalized_shape.size()), true);
  const Tensor y = x * rsqrt(square + eps.value_or(smallest));
  return in_format_of((weight.defined() ? y * weight : y).to(input.dtype()), input);
}

}  // namespace smolder::lazy
