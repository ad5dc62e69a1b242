// Modules over images and signals, with torch's names, defaults and initialisation: convolutions, pools and what
// normalises channels.
#pragma once

#include <optional>

#include "smolder/lazy/arguments.h"
#include "smolder/nn/module.h"

namespace smolder::nn {

struct ConvOptions {
  Axes stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  bool same = false;        ///< pads so that the output has the input's size, whatever `padding` says
  Axes output_padding = 0;  ///< of transposed convolutions
};

/// The base of convolutions over any number of dimensions. Throws ValueError for groups that do not divide the
/// channels.
class ConvBase : public Module {
 public:
  Tensor weight, bias;

 protected:
  ConvBase(int dims, int64_t in_channels, int64_t out_channels, const Dims& kernel_size, const ConvOptions& options,
           bool transposed = false);
  ConvOptions options_;
};

/// Declares the module `Name`, a convolution over `dims` dimensions.
#define SMOLDER_CONV(Name, dims, transposed)                                                                        \
  class Name##Impl : public ConvBase {                                                                              \
   public:                                                                                                          \
    Name##Impl(int64_t in_channels, int64_t out_channels, const Axes& kernel_size, const ConvOptions& options = {}) \
        : ConvBase(dims, in_channels, out_channels, kernel_size, options, transposed) {}                            \
    Tensor forward(const Tensor& x) const;                                                                          \
  };                                                                                                                \
  SMOLDER_MODULE(Name)

// Weight is [out_channels, in_channels / groups, and the sizes of the kernel].
SMOLDER_CONV(Conv1d, 1, false);
SMOLDER_CONV(Conv2d, 2, false);
SMOLDER_CONV(Conv3d, 3, false);
// Weight is [in_channels, out_channels / groups, and the sizes of the kernel].
SMOLDER_CONV(ConvTranspose1d, 1, true);
SMOLDER_CONV(ConvTranspose2d, 2, true);
SMOLDER_CONV(ConvTranspose3d, 3, true);
#undef SMOLDER_CONV

struct PoolOptions {
  Axes stride = {};  ///< empty: that of the window
  Axes padding = 0, dilation = 1;
  bool ceil_mode = false, count_include_pad = true;
  std::optional<int64_t> divisor_override = {};
};

class PoolBase : public Module {
 public:
  explicit PoolBase(const Axes& kernel_size, const PoolOptions& options = {})
      : kernel_size_(kernel_size), options_(options) {}

 protected:
  Axes kernel_size_;
  PoolOptions options_;
};

/// A pool of so many windows that cover the input evenly.
class AdaptivePoolBase : public Module {
 public:
  explicit AdaptivePoolBase(const Axes& output_size) : output_size_(output_size) {}

 protected:
  Axes output_size_;
};

/// Declares the module `Name`, a pool that is made as `Base` is.
#define SMOLDER_POOL(Name, Base)           \
  class Name##Impl : public Base {         \
   public:                                 \
    using Base::Base;                      \
    Tensor forward(const Tensor& x) const; \
  };                                       \
  SMOLDER_MODULE(Name)

// Largest element of each window.
SMOLDER_POOL(MaxPool1d, PoolBase);
SMOLDER_POOL(MaxPool2d, PoolBase);
SMOLDER_POOL(MaxPool3d, PoolBase);
// Mean of each window; not dilated.
SMOLDER_POOL(AvgPool1d, PoolBase);
SMOLDER_POOL(AvgPool2d, PoolBase);
SMOLDER_POOL(AvgPool3d, PoolBase);
SMOLDER_POOL(AdaptiveAvgPool1d, AdaptivePoolBase);
SMOLDER_POOL(AdaptiveAvgPool2d, AdaptivePoolBase);
SMOLDER_POOL(AdaptiveAvgPool3d, AdaptivePoolBase);
SMOLDER_POOL(AdaptiveMaxPool1d, AdaptivePoolBase);
SMOLDER_POOL(AdaptiveMaxPool2d, AdaptivePoolBase);
SMOLDER_POOL(AdaptiveMaxPool3d, AdaptivePoolBase);
#undef SMOLDER_POOL

struct BatchNormOptions {
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;  ///< empty: the running statistics are the mean over all batches
  bool affine = true, track_running_stats = true;
};

struct InstanceNormOptions {
  double eps = 1e-5, momentum = 0.1;
  bool affine = false, track_running_stats = false;
};

/// Channels with a weight and a bias each, and statistics of the batches so far, where they are asked for.
class ChannelNormBase : public Module {
 public:
  Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 protected:
  ChannelNormBase(int64_t num_features, bool affine, bool track_running_stats);
};

/// Channels (dimension 1) normalised over the batch; in evaluation by running statistics, where they are tracked.
class BatchNormBase : public ChannelNormBase {
 public:
  Tensor forward(const Tensor& x);

 protected:
  BatchNormBase(int64_t num_features, BatchNormOptions options, int least_rank, int most_rank)
      : ChannelNormBase(num_features, options.affine, options.track_running_stats),
        options_(options),
        least_rank_(least_rank),
        most_rank_(most_rank) {}

 private:
  Tensor cumulative(const Tensor& x);
  BatchNormOptions options_;
  int least_rank_, most_rank_;
};

/// Channels of each sample normalised by themselves; in evaluation by running statistics, where they are tracked.
class InstanceNormBase : public ChannelNormBase {
 public:
  Tensor forward(const Tensor& x);

 protected:
  InstanceNormBase(int64_t num_features, InstanceNormOptions options, int dims)
      : ChannelNormBase(num_features, options.affine, options.track_running_stats),
        options_(options),
        num_features_(num_features),
        dims_(dims) {}

 private:
  InstanceNormOptions options_;
  int64_t num_features_;
  int dims_;
};

/// Declares the module `Name`: `Kind`Base with the arguments that follow.
#define SMOLDER_CHANNEL_NORM(Name, Kind, ...)                             \
  class Name##Impl : public Kind##Base {                                  \
   public:                                                                \
    explicit Name##Impl(int64_t num_features, Kind##Options options = {}) \
        : Kind##Base(num_features, options, __VA_ARGS__) {}               \
  };                                                                      \
  SMOLDER_MODULE(Name)

SMOLDER_CHANNEL_NORM(BatchNorm1d, BatchNorm, 2, 3);     // [N, C] or [N, C, L]
SMOLDER_CHANNEL_NORM(BatchNorm2d, BatchNorm, 4, 4);     // [N, C, H, W]
SMOLDER_CHANNEL_NORM(BatchNorm3d, BatchNorm, 5, 5);     // [N, C, D, H, W]
SMOLDER_CHANNEL_NORM(InstanceNorm1d, InstanceNorm, 1);  // [N, C, L] or [C, L]
SMOLDER_CHANNEL_NORM(InstanceNorm2d, InstanceNorm, 2);  // [N, C, H, W] or [C, H, W]
SMOLDER_CHANNEL_NORM(InstanceNorm3d, InstanceNorm, 3);  // [N, C, D, H, W] or [C, D, H, W]
#undef SMOLDER_CHANNEL_NORM

/// Groups of channels normalised by themselves.
class GroupNormImpl : public Module {
 public:
  GroupNormImpl(int64_t num_groups, int64_t num_channels, double eps = 1e-5, bool affine = true);
  Tensor forward(const Tensor& x) const;
  Tensor weight, bias;

 private:
  int64_t num_groups_;
  double eps_;
};
SMOLDER_MODULE(GroupNorm);

/// The last dimensions divided by the root of their mean square; without `eps`, that of the dtype is added.
class RMSNormImpl : public Module {
 public:
  explicit RMSNormImpl(Dims normalized_shape, std::optional<double> eps = {}, bool elementwise_affine = true);
  Tensor forward(const Tensor& x) const;
  Tensor weight;

 private:
  Dims normalized_shape_;
  std::optional<double> eps_;
};
SMOLDER_MODULE(RMSNorm);

/// Zeroes channels with probability p while training, and scales the rest by 1 / (1 - p).
class ChannelDropoutBase : public Module {
 public:
  Tensor forward(const Tensor& x) const;

 protected:
  ChannelDropoutBase(double p, int unbatched_rank);

 private:
  double p_;
  int unbatched_rank_;  ///< of an input that is one sample; 0: none is
};

/// Takes signals [N, C, L] or [C, L].
class Dropout1dImpl : public ChannelDropoutBase {
 public:
  explicit Dropout1dImpl(double p = 0.5) : ChannelDropoutBase(p, 2) {}
};
SMOLDER_MODULE(Dropout1d);

/// Takes images [N, C, H, W]; what has three dimensions is signals, as in torch.
class Dropout2dImpl : public ChannelDropoutBase {
 public:
  explicit Dropout2dImpl(double p = 0.5) : ChannelDropoutBase(p, 0) {}
};
SMOLDER_MODULE(Dropout2d);

/// Takes volumes [N, C, D, H, W] or [C, D, H, W].
class Dropout3dImpl : public ChannelDropoutBase {
 public:
  explicit Dropout3dImpl(double p = 0.5) : ChannelDropoutBase(p, 4) {}
};
SMOLDER_MODULE(Dropout3d);

}  // namespace smolder::nn
