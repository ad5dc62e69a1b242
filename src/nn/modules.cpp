#include "smolder/nn/modules.h"

#include <cmath>

#include "smolder/lazy/ops.h"  // generated
#include "smolder/nn/init.h"

namespace smolder::nn {
namespace {

Tensor empty(Dims shape) { return zeros(shape); }

}  // namespace

LinearImpl::LinearImpl(int64_t in_features, int64_t out_features, bool with_bias) {
  const double bound = in_features > 0 ? 1 / std::sqrt(static_cast<double>(in_features)) : 0;
  weight = register_parameter("weight", init::uniform_(empty({out_features, in_features}), -bound, bound));
  if (with_bias) bias = register_parameter("bias", init::uniform_(empty({out_features}), -bound, bound));
}

Tensor LinearImpl::forward(const Tensor& x) const { return linear(x, weight, bias); }

LayerNormImpl::LayerNormImpl(Dims normalized_shape, double eps, bool elementwise_affine)
    : normalized_shape_(normalized_shape), eps_(eps) {
  if (!elementwise_affine) return;
  weight = register_parameter("weight", ones(normalized_shape));
  bias = register_parameter("bias", zeros(normalized_shape));
}

Tensor LayerNormImpl::forward(const Tensor& x) const { return layer_norm(x, normalized_shape_, weight, bias, eps_); }

EmbeddingImpl::EmbeddingImpl(int64_t num_embeddings, int64_t embedding_dim, std::optional<int64_t> padding_idx)
    : padding_idx_(padding_idx) {
  Tensor table = randn({num_embeddings, embedding_dim});
  if (padding_idx) {
    SMOLDER_CHECK(*padding_idx >= -num_embeddings && *padding_idx < num_embeddings, ValueError, "padding_idx ",
                  *padding_idx, " must be within num_embeddings, ", num_embeddings);
    if (*padding_idx < 0) padding_idx_ = *padding_idx + num_embeddings;
    Tensor row = select(table, 0, *padding_idx_);
    init::zeros_(row);
  }
  weight = register_parameter("weight", table);
}

Tensor EmbeddingImpl::forward(const Tensor& indices) const {
  return embedding(weight, indices, padding_idx_.value_or(-1));
}

DropoutImpl::DropoutImpl(double p) : p_(p) {
  SMOLDER_CHECK(p >= 0 && p <= 1, ValueError, "dropout probability has to be between 0 and 1, but got ", p);
}

Tensor DropoutImpl::forward(const Tensor& x) const { return dropout(x, p_, is_training()); }

Tensor ReLUImpl::forward(const Tensor& x) const { return relu(x); }

Tensor GELUImpl::forward(const Tensor& x) const { return gelu(x, approximate_); }

Tensor SequentialImpl::forward(Tensor x) const {
  for (const auto& step : steps_) x = step(x);
  return x;
}

MultiheadAttentionImpl::MultiheadAttentionImpl(int64_t embed_dim, int64_t num_heads, double dropout, bool bias)
    : out_proj(embed_dim, embed_dim, bias), embed_dim_(embed_dim), num_heads_(num_heads), dropout_(dropout) {
  SMOLDER_CHECK(num_heads > 0 && embed_dim % num_heads == 0, ValueError, "embed_dim ", embed_dim,
                " must be divisible by num_heads ", num_heads);
  in_proj_weight = register_parameter("in_proj_weight", init::xavier_uniform_(empty({3 * embed_dim, embed_dim})));
  if (bias) {
    in_proj_bias = register_parameter("in_proj_bias", zeros({3 * embed_dim}));
    init::zeros_(out_proj->bias);
  }
  register_module("out_proj", out_proj);
}

Tensor MultiheadAttentionImpl::project(const Tensor& x, int part) const {
  const auto third = [&](const Tensor& packed) { return narrow(packed, 0, part * embed_dim_, embed_dim_); };
  const Tensor y = linear(x, third(in_proj_weight), in_proj_bias.defined() ? third(in_proj_bias) : Tensor());
  return transpose(y.view({x.size(0), x.size(1), num_heads_, embed_dim_ / num_heads_}), 1, 2);
}

Tensor MultiheadAttentionImpl::forward(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                                       bool is_causal) const {
  SMOLDER_CHECK(query.dim() == 3 && query.size(2) == embed_dim_, RuntimeError,
                "MultiheadAttention expects a query of shape [batch, sequence, ", embed_dim_, "], got ", query.shape());
  const Tensor heads = scaled_dot_product_attention(project(query, 0), project(key, 1), project(value, 2), mask,
                                                    is_training() ? dropout_ : 0, is_causal);
  return out_proj(transpose(heads, 1, 2).reshape({query.size(0), query.size(1), embed_dim_}));
}

Tensor CrossEntropyLossImpl::forward(const Tensor& input, const Tensor& target) const {
  return cross_entropy(input, target, {}, ignore_index_, reduction_, label_smoothing_);
}

Tensor MSELossImpl::forward(const Tensor& input, const Tensor& target) const {
  return mse_loss(input, target, reduction_);
}

}  // namespace smolder::nn
