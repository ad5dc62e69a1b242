// Activations as modules, with torch's names and defaults.
#pragma once

#include "smolder/nn/module.h"

namespace smolder::nn {

/// The function of that name, without options.
#define SMOLDER_ACTIVATION(Name)           \
  class Name##Impl : public Module {       \
   public:                                 \
    Tensor forward(const Tensor& x) const; \
  };                                       \
  SMOLDER_MODULE(Name)

SMOLDER_ACTIVATION(Sigmoid);
SMOLDER_ACTIVATION(Tanh);
SMOLDER_ACTIVATION(SiLU);
SMOLDER_ACTIVATION(SELU);
SMOLDER_ACTIVATION(Mish);
SMOLDER_ACTIVATION(ReLU6);
SMOLDER_ACTIVATION(Hardswish);
SMOLDER_ACTIVATION(Hardsigmoid);
SMOLDER_ACTIVATION(LogSigmoid);
SMOLDER_ACTIVATION(Softsign);
SMOLDER_ACTIVATION(Tanhshrink);

#undef SMOLDER_ACTIVATION

/// x where positive, else negative_slope * x.
class LeakyReLUImpl : public Module {
 public:
  explicit LeakyReLUImpl(double negative_slope = 0.01) : negative_slope_(negative_slope) {}
  Tensor forward(const Tensor& x) const;

 private:
  double negative_slope_;
};
SMOLDER_MODULE(LeakyReLU);

/// x where positive, else x times a slope drawn from [lower, upper); in evaluation their mean is the slope.
class RReLUImpl : public Module {
 public:
  explicit RReLUImpl(double lower = 1.0 / 8, double upper = 1.0 / 3) : lower_(lower), upper_(upper) {}
  Tensor forward(const Tensor& x) const;

 private:
  double lower_, upper_;
};
SMOLDER_MODULE(RReLU);

/// x where positive, else alpha * (exp(x) - 1).
class ELUImpl : public Module {
 public:
  explicit ELUImpl(double alpha = 1) : alpha_(alpha) {}
  Tensor forward(const Tensor& x) const;

 private:
  double alpha_;
};
SMOLDER_MODULE(ELU);

/// x where positive, else a weight that is learnt times x: one weight, or one for each channel.
class PReLUImpl : public Module {
 public:
  explicit PReLUImpl(int64_t num_parameters = 1, double init = 0.25);
  Tensor forward(const Tensor& x) const;
  Tensor weight;
};
SMOLDER_MODULE(PReLU);

/// log(1 + exp(beta * x)) / beta; x itself where beta * x passes threshold.
class SoftplusImpl : public Module {
 public:
  explicit SoftplusImpl(double beta = 1, double threshold = 20) : beta_(beta), threshold_(threshold) {}
  Tensor forward(const Tensor& x) const;

 private:
  double beta_, threshold_;
};
SMOLDER_MODULE(Softplus);

/// Elements brought into [min_val, max_val].
class HardtanhImpl : public Module {
 public:
  explicit HardtanhImpl(double min_val = -1, double max_val = 1) : min_val_(min_val), max_val_(max_val) {}
  Tensor forward(const Tensor& x) const;

 private:
  double min_val_, max_val_;
};
SMOLDER_MODULE(Hardtanh);

/// exp(x) / sum(exp(x)) along a dimension.
class SoftmaxImpl : public Module {
 public:
  explicit SoftmaxImpl(int64_t dim) : dim_(dim) {}
  Tensor forward(const Tensor& x) const;

 private:
  int64_t dim_;
};
SMOLDER_MODULE(Softmax);

/// log(softmax(x)) along a dimension.
class LogSoftmaxImpl : public Module {
 public:
  explicit LogSoftmaxImpl(int64_t dim) : dim_(dim) {}
  Tensor forward(const Tensor& x) const;

 private:
  int64_t dim_;
};
SMOLDER_MODULE(LogSoftmax);

/// The first half along a dimension times the sigmoid of the second.
class GLUImpl : public Module {
 public:
  explicit GLUImpl(int64_t dim = -1) : dim_(dim) {}
  Tensor forward(const Tensor& x) const;

 private:
  int64_t dim_;
};
SMOLDER_MODULE(GLU);

}  // namespace smolder::nn
