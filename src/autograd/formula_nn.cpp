// Gradients of activations, losses, layer_norm and attention, as compositions of ops.
#include <array>
#include <limits>

#include "smolder/autograd/formula_support.h"
#include "smolder/ir/decompose.h"

namespace smolder::autograd {

Tensor gelu_curvature(const Tensor& x, std::string_view approximate) {
  if (approximate == "none") return ir::kInvSqrt2Pi * exp(-0.5 * x * x) * (2 - x * x);
  const Tensor t = tanh(ir::kGeluScale * (x + ir::kGeluCube * x * x * x));
  const Tensor inner = ir::kGeluScale * (1 + 3 * ir::kGeluCube * x * x);
  return (1 - t * t) * (inner + 0.5 * x * (6 * ir::kGeluScale * ir::kGeluCube * x - 2 * t * inner * inner));
}

Tensor loss_scale(const Tensor& grad, double factor, std::string_view reduction, const Dims& a, const Dims& b) {
  if (reduction != "mean") return factor == 1 ? grad : grad * factor;
  return grad * (factor / static_cast<double>(numel(broadcast_shapes(a, b, "loss"))));
}

Tensor smooth_slope(const Tensor& d, Scalar bound, Scalar inner, Scalar outer) {
  return where(abs(d) >= bound, sign(d) * outer, d * inner);  // nan of nan
}

Tensor bce_logits_grad(const Tensor& grad, const Tensor& self, const Tensor& target, const Tensor& weight,
                       const Tensor& pos_weight, std::string_view reduction) {
  const Tensor p = sigmoid(self);
  Tensor slope = p - target;
  if (pos_weight.defined()) {
    const Tensor positive = pos_weight * target;
    slope = (positive + 1 - target) * p - positive;
  }
  if (weight.defined()) slope = slope * weight;
  return slope * loss_scale(grad, 1, reduction, self.shape(), target.shape());
}

Tensor bce_target_grad(const Tensor& grad, const Tensor& self, const Tensor& weight, const Tensor& pos_weight,
                       std::string_view reduction) {
  Tensor slope = neg(self);
  if (pos_weight.defined()) slope = slope + (pos_weight - 1) * (log1p(exp(neg(abs(self)))) - clamp_max(self, 0.0));
  if (weight.defined()) slope = slope * weight;
  return slope * loss_scale(grad, 1, reduction, self.shape(), self.shape());
}

namespace {

/// Class targets as a composition of ops; ir::ClassTarget is the same inside decompositions.
struct Classes {
  int axis;
  Tensor index, valid, weight;
};

Classes classes(const Dims& shape, DType dtype, const Tensor& target, const Tensor& weight, int64_t ignore_index) {
  Classes c;
  c.axis = shape.size() == 1 ? 0 : 1;
  c.index = unsqueeze(target.to(DType::kInt64), c.axis);
  c.valid = c.index != ignore_index;
  c.index = where(c.valid, c.index, 0);
  c.weight = c.valid.to(dtype);
  if (weight.defined()) {
    const Tensor picked = index_select(weight.to(dtype), 0, reshape(c.index, {-1}));
    c.weight = c.weight * reshape(picked, c.index.shape());
  }
  return c;
}

/// The factor by which the loss's reduction multiplies each row, in `dtype`; zero where ignored.
Tensor row_scale(const Tensor& grad, const Classes& c, const Tensor& total, std::string_view reduction, DType dtype) {
  Tensor scale = grad.to(dtype);
  if (reduction == "none") scale = unsqueeze(scale, c.axis);
  if (reduction == "mean") scale = scale / total;
  return where(c.valid, scale, 0.0);
}

}  // namespace

Tensor nll_loss_grad(const Tensor& grad, const Tensor& target, const Tensor& weight, const Tensor& total,
                     int64_t ignore_index, std::string_view reduction) {
  const DType wide = total.dtype();
  const Classes c = classes(grad.shape(), wide, target, weight, ignore_index);
  Tensor rows = neg(gather(grad.to(wide), c.axis, c.index) * c.weight);
  if (reduction == "none") return squeeze(rows, c.axis);
  rows = sum(rows);
  return reduction == "mean" ? rows / total : rows;
}

Tensor cross_entropy_grad(const Tensor& grad, const Tensor& self, const Tensor& target, const Tensor& weight,
                          const Tensor& total, int64_t ignore_index, std::string_view reduction,
                          double label_smoothing) {
  const DType wide = total.dtype();
  const Classes c = classes(self.shape(), wide, target, weight, ignore_index);
  const Tensor p = softmax(self, c.axis, wide);
  const Tensor hit = scatter_add(zeros(self.shape(), wide), c.axis, c.index, ones(c.index.shape(), wide));
  Tensor slope = (p - hit) * c.weight;
  if (label_smoothing != 0) {
    Tensor w = ones(self.shape(), wide);
    if (weight.defined()) {
      Dims shape = Dims::filled(self.dim(), 1);
      shape[c.axis] = self.size(c.axis);
      w = w * reshape(weight.to(wide), shape);
    }
    const double share = label_smoothing / static_cast<double>(self.size(c.axis));
    slope = slope * (1 - label_smoothing) + (p * sum(w, c.axis, true) - w) * share;
  }
  return slope * row_scale(grad, c, total, reduction, wide);
}

std::array<Tensor, 3> layer_norm_grad(const Tensor& grad, const Tensor& self, const Tensor& weight,
                                      const Dims& normalized_shape, Scalar eps) {
  const DType wide = compute_type(self.dtype());
  const Dims axes = ir::last_axes(normalized_shape.size());
  const Tensor x = self.to(wide), out = grad.to(wide);
  const Tensor centered = x - mean(x, axes, true);
  const Tensor rstd = rsqrt(mean(centered * centered, axes, true) + eps);
  const Tensor normal = centered * rstd;
  const Tensor g = weight.defined() ? out * weight : out;
  return {(g - mean(g, axes, true) - normal * mean(g * normal, axes, true)) * rstd,
          sum_to_size(out * normal, normalized_shape), sum_to_size(out, normalized_shape)};
}

std::array<Tensor, 3> batch_norm_grad(const Tensor& grad, const Tensor& self, const Tensor& weight, Scalar eps) {
  const DType wide = compute_type(self.dtype());
  const Dims axes = ir::channel_axes(self.dim());
  const Tensor x = self.to(wide), out = grad.to(wide);
  const Tensor centered = x - mean(x, axes, true);
  const Tensor rstd = rsqrt(mean(centered * centered, axes, true) + eps);
  const Tensor normal = centered * rstd;
  Tensor scale = rstd;
  if (weight.defined()) scale = scale * reshape(weight.to(wide), rstd.shape());
  return {(out - mean(out, axes, true) - normal * mean(out * normal, axes, true)) * scale, sum(out * normal, axes),
          sum(out, axes)};
}

Tensor max_pool_grad(const Tensor& grad, const Tensor& indices, const Dims& shape) {
  const int64_t height = shape[shape.size() - 2], width = shape[shape.size() - 1],
                places = grad.size(-1) * grad.size(-2);
  const int64_t planes = grad.numel() / places;
  const Tensor flat = zeros({planes, height * width}, grad.dtype());
  return reshape(scatter_add(flat, 1, reshape(indices, {planes, places}), reshape(grad, {planes, places})), shape);
}

std::array<Tensor, 4> attention_grad(const Tensor& grad, const Tensor& query, const Tensor& key, const Tensor& value,
                                     const Tensor& mask, Scalar scale, bool is_causal) {
  constexpr double kMasked = -std::numeric_limits<double>::infinity();
  const auto flip_last = [](const Tensor& x) { return transpose(x, -1, -2); };
  Tensor scores = matmul(query, flip_last(key)) * scale;
  const Dims matrix{scores.size(-2), scores.size(-1)};
  if (is_causal) scores = where(tril(ones(matrix, DType::kBool)), scores, kMasked);
  if (mask.defined()) scores = mask.dtype() == DType::kBool ? where(mask, scores, kMasked) : scores + mask;
  Tensor p = softmax(scores, -1);
  if (mask.defined()) p = where(isnan(p), 0.0, p);  // rows that are masked altogether
  const Tensor dp = matmul(grad, flip_last(value));
  const Tensor ds = p * (dp - sum(dp * p, -1, true));
  const bool additive = mask.defined() && is_floating(mask.dtype());
  return {matmul(ds, key) * scale, matmul(flip_last(ds), query) * scale, matmul(flip_last(p), grad),
          additive ? sum_to_size(ds, mask.shape()) : Tensor()};
}

}  // namespace smolder::autograd
