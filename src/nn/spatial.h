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

/// What convolutions over any number of dimensions share. Throws ValueError for groups that do not divide the channels.
class ConvBase : public Module {
 public:
  Tensor weight, bias;

 protected:
  ConvBase(int dims, int64_t in_channels, int64_t out_channels, const Dims& kernel_size, const ConvOptions& options,
           bool transposed = false);
  ConvOptions options_;
};

/// Of signals [N, C, L]; weight is [out_channels, in_channels / groups, kernel].
class Conv1dImpl : public ConvBase {
 public:
  Conv1dImpl(int64_t in_channels, int64_t out_channels, const Axes& kernel_size, const ConvOptions& options = {})
      : ConvBase(1, in_channels, out_channels, kernel_size, options) {}
  Tensor forward(const Tensor& x) const;
};
SMOLDER_MODULE(Conv1d);

/// Of images [N, C, H, W]; weight is [out_channels, in_channels / groups, h, w].
class Conv2dImpl : public ConvBase {
 public:
  Conv2dImpl(int64_t in_channels, int64_t out_channels, const Axes& kernel_size, const ConvOptions& options = {})
      : ConvBase(2, in_channels, out_channels, kernel_size, options) {}
  Tensor forward(const Tensor& x) const;
};
SMOLDER_MODULE(Conv2d);

/// Weight is [in_channels, out_channels / groups, kernel].
class ConvTranspose1dImpl : public ConvBase {
 public:
  ConvTranspose1dImpl(int64_t in_channels, int64_t out_channels, const Axes& kernel_size,
                      const ConvOptions& options = {})
      : ConvBase(1, in_channels, out_channels, kernel_size, options, true) {}
  Tensor forward(const Tensor& x) const;
};
SMOLDER_MODULE(ConvTranspose1d);

/// Weight is [in_channels, out_channels / groups, h, w].
class ConvTranspose2dImpl : public ConvBase {
 public:
  ConvTranspose2dImpl(int64_t in_channels, int64_t out_channels, const Axes& kernel_size,
                      const ConvOptions& options = {})
      : ConvBase(2, in_channels, out_channels, kernel_size, options, true) {}
  Tensor forward(const Tensor& x) const;
};
SMOLDER_MODULE(ConvTranspose2d);

struct PoolOptions {
  Axes stride = {};  ///< empty: that of the window
  Axes padding = 0, dilation = 1;
  bool ceil_mode = false, count_include_pad = true;
  std::optional<int64_t> divisor_override = {};
};

class PoolBase : public Module {
 protected:
  PoolBase(const Axes& kernel_size, const PoolOptions& options) : kernel_size_(kernel_size), options_(options) {}
  Axes kernel_size_;
  PoolOptions options_;
};

/// Largest element of each window.
class MaxPool1dImpl : public PoolBase {
 public:
  explicit MaxPool1dImpl(const Axes& kernel_size, const PoolOptions& options = {}) : PoolBase(kernel_size, options) {}
  Tensor forward(const Tensor& x) const;
};
SMOLDER_MODULE(MaxPool1d);

class MaxPool2dImpl : public PoolBase {
 public:
  explicit MaxPool2dImpl(const Axes& kernel_size, const PoolOptions& options = {}) : PoolBase(kernel_size, options) {}
  Tensor forward(const Tensor& x) const;
};
SMOLDER_MODULE(MaxPool2d);

/// Mean of each window; not dilated.
class AvgPool1dImpl : public PoolBase {
 public:
  explicit AvgPool1dImpl(const Axes& kernel_size, const PoolOptions& options = {}) : PoolBase(kernel_size, options) {}
  Tensor forward(const Tensor& x) const;
};
SMOLDER_MODULE(AvgPool1d);

class AvgPool2dImpl : public PoolBase {
 public:
  explicit AvgPool2dImpl(const Axes& kernel_size, const PoolOptions& options = {}) : PoolBase(kernel_size, options) {}
  Tensor forward(const Tensor& x) const;
};
SMOLDER_MODULE(AvgPool2d);

/// Means of so many windows that cover the input evenly.
class AdaptiveAvgPool1dImpl : public Module {
 public:
  explicit AdaptiveAvgPool1dImpl(const Axes& output_size) : output_size_(output_size) {}
  Tensor forward(const Tensor& x) const;

 private:
  Axes output_size_;
};
SMOLDER_MODULE(AdaptiveAvgPool1d);

class AdaptiveAvgPool2dImpl : public Module {
 public:
  explicit AdaptiveAvgPool2dImpl(const Axes& output_size) : output_size_(output_size) {}
  Tensor forward(const Tensor& x) const;

 private:
  Axes output_size_;
};
SMOLDER_MODULE(AdaptiveAvgPool2d);

struct BatchNormOptions {
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;  ///< empty: the running statistics are the mean over all batches
  bool affine = true, track_running_stats = true;
};

/// Channels (dimension 1) normalised over the batch; in evaluation by running statistics, where they are tracked.
class BatchNormBase : public Module {
 public:
  Tensor forward(const Tensor& x);
  Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 protected:
  BatchNormBase(int64_t num_features, BatchNormOptions options, int least_rank, int most_rank);

 private:
  Tensor cumulative(const Tensor& x);
  BatchNormOptions options_;
  int least_rank_, most_rank_;
};

/// Of [N, C] or [N, C, L].
class BatchNorm1dImpl : public BatchNormBase {
 public:
  explicit BatchNorm1dImpl(int64_t num_features, BatchNormOptions options = {})
      : BatchNormBase(num_features, options, 2, 3) {}
};
SMOLDER_MODULE(BatchNorm1d);

/// Of [N, C, H, W].
class BatchNorm2dImpl : public BatchNormBase {
 public:
  explicit BatchNorm2dImpl(int64_t num_features, BatchNormOptions options = {})
      : BatchNormBase(num_features, options, 4, 4) {}
};
SMOLDER_MODULE(BatchNorm2d);

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

/// Zeroes channels (dimension 1) with probability p while training, and scales the rest by 1 / (1 - p).
class Dropout2dImpl : public Module {
 public:
  explicit Dropout2dImpl(double p = 0.5);
  Tensor forward(const Tensor& x) const;

 private:
  double p_;
};
SMOLDER_MODULE(Dropout2d);

}  // namespace smolder::nn
