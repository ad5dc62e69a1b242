// The modules of ordinary models, with torch's names, defaults and initialisation.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "smolder/nn/module.h"

namespace smolder::nn {

/// y = x W^T + b; W is [out_features, in_features].
class LinearImpl : public Module {
 public:
  LinearImpl(int64_t in_features, int64_t out_features, bool bias = true);
  Tensor forward(const Tensor& x) const;
  Tensor weight, bias;
};
SMOLDER_MODULE(Linear);

/// Normalises over the last dimensions, `normalized_shape` of them.
class LayerNormImpl : public Module {
 public:
  explicit LayerNormImpl(Dims normalized_shape, double eps = 1e-5, bool elementwise_affine = true);
  Tensor forward(const Tensor& x) const;
  Tensor weight, bias;

 private:
  Dims normalized_shape_;
  double eps_;
};
SMOLDER_MODULE(LayerNorm);

/// Rows of a table [num_embeddings, embedding_dim] by integer index.
class EmbeddingImpl : public Module {
 public:
  EmbeddingImpl(int64_t num_embeddings, int64_t embedding_dim, std::optional<int64_t> padding_idx = {});
  Tensor forward(const Tensor& indices) const;
  Tensor weight;

 private:
  std::optional<int64_t> padding_idx_;
};
SMOLDER_MODULE(Embedding);

/// Zeroes elements with probability p while training, and scales the rest by 1 / (1 - p).
class DropoutImpl : public Module {
 public:
  explicit DropoutImpl(double p = 0.5);
  Tensor forward(const Tensor& x) const;

 private:
  double p_;
};
SMOLDER_MODULE(Dropout);

class ReLUImpl : public Module {
 public:
  Tensor forward(const Tensor& x) const;
};
SMOLDER_MODULE(ReLU);

/// `approximate` is "none" or "tanh".
class GELUImpl : public Module {
 public:
  explicit GELUImpl(std::string approximate = "none") : approximate_(std::move(approximate)) {}
  Tensor forward(const Tensor& x) const;

 private:
  std::string approximate_;
};
SMOLDER_MODULE(GELU);

/// Modules one after the other; each takes and returns one tensor.
class SequentialImpl : public Module {
 public:
  template <class... Modules>
  explicit SequentialImpl(Modules... modules) {
    (push_back(std::move(modules)), ...);
  }
  /// Adds a module, or a pointer to one, under its position as name.
  void push_back(auto module) {
    register_module(std::to_string(steps_.size()), module);
    steps_.push_back([module](const Tensor& x) {
      if constexpr (requires { module(x); }) {
        return module(x);
      } else {
        return module->forward(x);
      }
    });
  }
  Tensor forward(Tensor x) const;

 private:
  std::vector<std::function<Tensor(const Tensor&)>> steps_;
};
SMOLDER_MODULE(Sequential);

/// Attention over `num_heads` heads with one packed input projection, batch first: [batch, sequence, embed].
class MultiheadAttentionImpl : public Module {
 public:
  MultiheadAttentionImpl(int64_t embed_dim, int64_t num_heads, double dropout = 0, bool bias = true);
  /// `mask` (optional) broadcasts to [batch, heads, queries, keys]: bool, true where attention is allowed, or
  /// a float that is added to the scores.
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask = {},
                 bool is_causal = false) const;
  Tensor in_proj_weight, in_proj_bias;
  Linear out_proj;

 private:
  Tensor project(const Tensor& x, int part) const;
  int64_t embed_dim_, num_heads_;
  double dropout_;
};
SMOLDER_MODULE(MultiheadAttention);

/// Cross entropy of class scores [N, C, ...] with class indices [N, ...].
class CrossEntropyLossImpl : public Module {
 public:
  explicit CrossEntropyLossImpl(std::string reduction = "mean", int64_t ignore_index = -100, double label_smoothing = 0)
      : reduction_(std::move(reduction)), ignore_index_(ignore_index), label_smoothing_(label_smoothing) {}
  Tensor forward(const Tensor& input, const Tensor& target) const;

 private:
  std::string reduction_;
  int64_t ignore_index_;
  double label_smoothing_;
};
SMOLDER_MODULE(CrossEntropyLoss);

class MSELossImpl : public Module {
 public:
  explicit MSELossImpl(std::string reduction = "mean") : reduction_(std::move(reduction)) {}
  Tensor forward(const Tensor& input, const Tensor& target) const;

 private:
  std::string reduction_;
};
SMOLDER_MODULE(MSELoss);

}  // namespace smolder::nn
