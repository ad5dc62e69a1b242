#include "smolder/nn/spatial.h"

#include <cmath>

#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/record.h"
#include "smolder/nn/init.h"

namespace smolder::nn {

// -- convolutions and pools

ConvBase::ConvBase(int dims, int64_t in_channels, int64_t out_channels, const Dims& kernel_size,
                   const ConvOptions& options, bool transposed)
    : options_(options) {
  const int64_t groups = options_.groups;
  SMOLDER_CHECK(groups > 0, ValueError, "groups must be a positive integer");
  SMOLDER_CHECK(in_channels % groups == 0, ValueError, "in_channels must be divisible by groups");
  SMOLDER_CHECK(out_channels % groups == 0, ValueError, "out_channels must be divisible by groups");
  SMOLDER_CHECK(kernel_size.size() == 1 || kernel_size.size() == dims, ValueError, "expected ", dims,
                " sizes of the kernel, got ", kernel_size);
  Dims shape = transposed ? Dims{in_channels, out_channels / groups} : Dims{out_channels, in_channels / groups};
  for (int i = 0; i < dims; ++i) shape.push_back(kernel_size[kernel_size.size() == dims ? i : 0]);
  const Tensor drawn = zeros(shape);
  if (drawn.numel() > 0) init::kaiming_uniform_(drawn, std::sqrt(5.0));
  weight = register_parameter("weight", drawn);
  if (!options_.bias) return;
  const Tensor offsets = zeros({out_channels});
  const int64_t fan_in = shape[0] == 0 ? 0 : numel(shape) / shape[0];
  if (fan_in > 0) {
    const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
    init::uniform_(offsets, -bound, bound);
  }
  bias = register_parameter("bias", offsets);
}

// Functions that are alike for one, two and three dimensions.
#define SMOLDER_FORWARD(dims)                                                                                     \
  Tensor Conv##dims##dImpl::forward(const Tensor& x) const {                                                      \
    const ConvOptions& o = options_;                                                                              \
    return o.same ? conv##dims##d_padded(x, weight, bias, o.stride, "same", o.dilation, o.groups)                 \
                  : conv##dims##d(x, weight, bias, o.stride, o.padding, o.dilation, o.groups);                    \
  }                                                                                                               \
  Tensor ConvTranspose##dims##dImpl::forward(const Tensor& x) const {                                             \
    const ConvOptions& o = options_;                                                                              \
    return conv_transpose##dims##d(x, weight, bias, o.stride, o.padding, o.output_padding, o.groups, o.dilation); \
  }                                                                                                               \
  Tensor MaxPool##dims##dImpl::forward(const Tensor& x) const {                                                   \
    const PoolOptions& o = options_;                                                                              \
    return max_pool##dims##d(x, kernel_size_, o.stride, o.padding, o.dilation, o.ceil_mode);                      \
  }                                                                                                               \
  Tensor AdaptiveAvgPool##dims##dImpl::forward(const Tensor& x) const {                                           \
    return adaptive_avg_pool##dims##d(x, output_size_);                                                           \
  }                                                                                                               \
  Tensor AdaptiveMaxPool##dims##dImpl::forward(const Tensor& x) const {                                           \
    return std::get<0>(adaptive_max_pool##dims##d(x, output_size_));                                              \
  }
SMOLDER_FORWARD(1)
SMOLDER_FORWARD(2)
SMOLDER_FORWARD(3)
#undef SMOLDER_FORWARD

Tensor AvgPool1dImpl::forward(const Tensor& x) const {
  return avg_pool1d(x, kernel_size_, options_.stride, options_.padding, options_.ceil_mode, options_.count_include_pad);
}

Tensor AvgPool2dImpl::forward(const Tensor& x) const {
  return avg_pool2d(x, kernel_size_, options_.stride, options_.padding, options_.ceil_mode, options_.count_include_pad,
                    options_.divisor_override);
}

Tensor AvgPool3dImpl::forward(const Tensor& x) const {
  return avg_pool3d(x, kernel_size_, options_.stride, options_.padding, options_.ceil_mode, options_.count_include_pad,
                    options_.divisor_override);
}

// -- normalisation

ChannelNormBase::ChannelNormBase(int64_t num_features, bool affine, bool track_running_stats) {
  if (affine) {
    weight = register_parameter("weight", ones({num_features}));
    bias = register_parameter("bias", zeros({num_features}));
  }
  if (!track_running_stats) return;
  running_mean = register_buffer("running_mean", zeros({num_features}));
  running_var = register_buffer("running_var", ones({num_features}));
  num_batches_tracked = register_buffer("num_batches_tracked", zeros({}, DType::kInt64));
}

Tensor BatchNormBase::forward(const Tensor& x) {
  SMOLDER_CHECK(x.dim() >= least_rank_ && x.dim() <= most_rank_, ValueError, "expected ",
                least_rank_ < most_rank_ ? "2D or 3D"
                : most_rank_ == 4        ? "4D"
                                         : "5D",
                " input (got ", x.dim(), "D input)");
  const bool tracked = running_mean.defined();
  if (is_training() && tracked) {
    const lazy::GradMode off(false);
    num_batches_tracked.add_(1);
  }
  if (is_training() && tracked && !options_.momentum) return cumulative(x);
  return batch_norm(x, running_mean, running_var, weight, bias, is_training() || !tracked,
                    options_.momentum.value_or(0), options_.eps);
}

/// The mean over all batches so far. How many is a tensor, which is not read.
Tensor BatchNormBase::cumulative(const Tensor& x) {
  const Tensor mean = running_mean.clone(), var = running_var.clone();  // what they stay for an empty batch
  const Tensor y = batch_norm(x, mean, var, weight, bias, true, 1.0, options_.eps);
  const lazy::GradMode off(false);
  const Tensor share = 1.0 / num_batches_tracked.to(mean.dtype());
  running_mean.add_((mean - running_mean) * share);
  running_var.add_((var - running_var) * share);
  return y;
}

Tensor InstanceNormBase::forward(const Tensor& x) {
  SMOLDER_CHECK(x.dim() == dims_ + 1 || x.dim() == dims_ + 2, ValueError, "expected ", dims_ + 1, "D or ", dims_ + 2,
                "D input (got ", x.dim(), "D input)");
  const bool batched = x.dim() == dims_ + 2;
  const int axis = batched ? 1 : 0;
  SMOLDER_CHECK(!options_.affine || x.size(axis) == num_features_, ValueError, "expected input's size at dim=", axis,
                " to match num_features (", num_features_, "), but got: ", x.size(axis), ".");
  const Tensor y = instance_norm(batched ? x : unsqueeze(x, 0), running_mean, running_var, weight, bias,
                                 is_training() || !options_.track_running_stats, options_.momentum, options_.eps);
  return batched ? y : squeeze(y, 0);
}

GroupNormImpl::GroupNormImpl(int64_t num_groups, int64_t num_channels, double eps, bool affine)
    : num_groups_(num_groups), eps_(eps) {
  SMOLDER_CHECK(num_groups > 0 && num_channels % num_groups == 0, ValueError, "num_channels (", num_channels,
                ") must be divisible by num_groups (", num_groups, ")");
  if (!affine) return;
  weight = register_parameter("weight", ones({num_channels}));
  bias = register_parameter("bias", zeros({num_channels}));
}

Tensor GroupNormImpl::forward(const Tensor& x) const { return group_norm(x, num_groups_, weight, bias, eps_); }

RMSNormImpl::RMSNormImpl(Dims normalized_shape, std::optional<double> eps, bool elementwise_affine)
    : normalized_shape_(normalized_shape), eps_(eps) {
  if (elementwise_affine) weight = register_parameter("weight", ones(normalized_shape));
}

Tensor RMSNormImpl::forward(const Tensor& x) const { return rms_norm(x, normalized_shape_, weight, eps_); }

ChannelDropoutBase::ChannelDropoutBase(double p, int unbatched_rank) : p_(p), unbatched_rank_(unbatched_rank) {
  SMOLDER_CHECK(p >= 0 && p <= 1, ValueError, "dropout probability has to be between 0 and 1, but got ", p);
}

Tensor ChannelDropoutBase::forward(const Tensor& x) const {
  if (x.dim() != unbatched_rank_) return feature_dropout(x, p_, is_training());
  return squeeze(feature_dropout(unsqueeze(x, 0), p_, is_training()), 0);
}

}  // namespace smolder::nn
