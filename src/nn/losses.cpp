#include "smolder/nn/losses.h"

#include "smolder/lazy/ops.h"  // generated

namespace smolder::nn {

NLLLossImpl::NLLLossImpl(Tensor weight, int64_t ignore_index, std::string reduction)
    : Loss(std::move(reduction)), weight_(std::move(weight)), ignore_index_(ignore_index) {}
Tensor NLLLossImpl::forward(const Tensor& input, const Tensor& target) const {
  return nll_loss(input, target, weight_, ignore_index_, reduction_);
}

Tensor L1LossImpl::forward(const Tensor& input, const Tensor& target) const {
  return l1_loss(input, target, reduction_);
}

Tensor SmoothL1LossImpl::forward(const Tensor& input, const Tensor& target) const {
  return smooth_l1_loss(input, target, reduction_, beta_);
}

Tensor HuberLossImpl::forward(const Tensor& input, const Tensor& target) const {
  return huber_loss(input, target, reduction_, delta_);
}

BCELossImpl::BCELossImpl(Tensor weight, std::string reduction)
    : Loss(std::move(reduction)), weight_(std::move(weight)) {}
Tensor BCELossImpl::forward(const Tensor& input, const Tensor& target) const {
  return binary_cross_entropy(input, target, weight_, reduction_);
}

BCEWithLogitsLossImpl::BCEWithLogitsLossImpl(Tensor weight, Tensor pos_weight, std::string reduction)
    : Loss(std::move(reduction)), weight_(std::move(weight)), pos_weight_(std::move(pos_weight)) {}
Tensor BCEWithLogitsLossImpl::forward(const Tensor& input, const Tensor& target) const {
  return binary_cross_entropy_with_logits(input, target, weight_, pos_weight_, reduction_);
}

Tensor KLDivLossImpl::forward(const Tensor& input, const Tensor& target) const {
  return kl_div(input, target, reduction_, log_target_);
}

}  // namespace smolder::nn
