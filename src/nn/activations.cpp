#include "smolder/nn/activations.h"

#include "smolder/lazy/ops.h"  // generated

namespace smolder::nn {

Tensor SigmoidImpl::forward(const Tensor& x) const { return sigmoid(x); }
Tensor TanhImpl::forward(const Tensor& x) const { return tanh(x); }
Tensor SiLUImpl::forward(const Tensor& x) const { return silu(x); }
Tensor SELUImpl::forward(const Tensor& x) const { return selu(x); }
Tensor MishImpl::forward(const Tensor& x) const { return mish(x); }
Tensor ReLU6Impl::forward(const Tensor& x) const { return relu6(x); }
Tensor HardswishImpl::forward(const Tensor& x) const { return hardswish(x); }
Tensor HardsigmoidImpl::forward(const Tensor& x) const { return hardsigmoid(x); }
Tensor LogSigmoidImpl::forward(const Tensor& x) const { return logsigmoid(x); }
Tensor SoftsignImpl::forward(const Tensor& x) const { return softsign(x); }
Tensor TanhshrinkImpl::forward(const Tensor& x) const { return tanhshrink(x); }
Tensor LeakyReLUImpl::forward(const Tensor& x) const { return leaky_relu(x, negative_slope_); }
Tensor RReLUImpl::forward(const Tensor& x) const { return rrelu(x, lower_, upper_, is_training()); }
Tensor ELUImpl::forward(const Tensor& x) const { return elu(x, alpha_); }
Tensor SoftplusImpl::forward(const Tensor& x) const { return softplus(x, beta_, threshold_); }
Tensor HardtanhImpl::forward(const Tensor& x) const { return hardtanh(x, min_val_, max_val_); }
Tensor SoftmaxImpl::forward(const Tensor& x) const { return softmax(x, dim_); }
Tensor LogSoftmaxImpl::forward(const Tensor& x) const { return log_softmax(x, dim_); }
Tensor GLUImpl::forward(const Tensor& x) const { return glu(x, dim_); }

PReLUImpl::PReLUImpl(int64_t num_parameters, double init)
    : weight(register_parameter("weight", full({num_parameters}, init))) {}
Tensor PReLUImpl::forward(const Tensor& x) const { return prelu(x, weight); }

}  // namespace smolder::nn
