// Losses as modules, with torch's names and defaults. `reduction` is "none", "mean" or "sum". The loss over classes
// of ordinary models, CrossEntropyLoss, and MSELoss are in modules.h.
#pragma once

#include <string>

#include "smolder/nn/module.h"

namespace smolder::nn {

/// Base of losses: how terms are reduced.
class Loss : public Module {
 protected:
  explicit Loss(std::string reduction) : reduction_(std::move(reduction)) {}
  std::string reduction_;
};

/// Negative of log-probabilities [N, C, ...] at class indices [N, ...].
class NLLLossImpl : public Loss {
 public:
  explicit NLLLossImpl(Tensor weight = {}, int64_t ignore_index = -100, std::string reduction = "mean");
  Tensor forward(const Tensor& input, const Tensor& target) const;

 private:
  Tensor weight_;
  int64_t ignore_index_;
};
SMOLDER_MODULE(NLLLoss);

/// Absolute differences.
class L1LossImpl : public Loss {
 public:
  explicit L1LossImpl(std::string reduction = "mean") : Loss(std::move(reduction)) {}
  Tensor forward(const Tensor& input, const Tensor& target) const;
};
SMOLDER_MODULE(L1Loss);

/// Differences, squared where they are below beta and else absolute.
class SmoothL1LossImpl : public Loss {
 public:
  explicit SmoothL1LossImpl(std::string reduction = "mean", double beta = 1)
      : Loss(std::move(reduction)), beta_(beta) {}
  Tensor forward(const Tensor& input, const Tensor& target) const;

 private:
  double beta_;
};
SMOLDER_MODULE(SmoothL1Loss);

/// Half the squared differences where they are below delta, and else delta times the absolute.
class HuberLossImpl : public Loss {
 public:
  explicit HuberLossImpl(std::string reduction = "mean", double delta = 1)
      : Loss(std::move(reduction)), delta_(delta) {}
  Tensor forward(const Tensor& input, const Tensor& target) const;

 private:
  double delta_;
};
SMOLDER_MODULE(HuberLoss);

/// Binary cross-entropy of probabilities.
class BCELossImpl : public Loss {
 public:
  explicit BCELossImpl(Tensor weight = {}, std::string reduction = "mean");
  Tensor forward(const Tensor& input, const Tensor& target) const;

 private:
  Tensor weight_;
};
SMOLDER_MODULE(BCELoss);

/// Binary cross-entropy of sigmoid(input), safe for large inputs.
class BCEWithLogitsLossImpl : public Loss {
 public:
  explicit BCEWithLogitsLossImpl(Tensor weight = {}, Tensor pos_weight = {}, std::string reduction = "mean");
  Tensor forward(const Tensor& input, const Tensor& target) const;

 private:
  Tensor weight_, pos_weight_;
};
SMOLDER_MODULE(BCEWithLogitsLoss);

/// Kullback-Leibler divergence of the distribution whose logarithms the input holds from the target. `reduction` may
/// be "batchmean" too.
class KLDivLossImpl : public Loss {
 public:
  explicit KLDivLossImpl(std::string reduction = "mean", bool log_target = false)
      : Loss(std::move(reduction)), log_target_(log_target) {}
  Tensor forward(const Tensor& input, const Tensor& target) const;

 private:
  bool log_target_;
};
SMOLDER_MODULE(KLDivLoss);

}  // namespace smolder::nn
