// Parts of decompositions: random numbers, attention, losses and optimizers.
#include <limits>

#include "smolder/ir/decompose.h"

namespace smolder::ir {

// -- random numbers

namespace {

/// The two words of each element: the second lies behind the blocks of the first (Generator::take).
std::pair<Value, Value> two_words(Builder& b, const SymDims& shape, Value seed, Value offset) {
  const Value behind = offset + b.sym().ceil_div(b.sym().numel(shape), 4);
  return {b.random_bits(shape, seed, offset), b.random_bits(shape, seed, behind)};
}

}  // namespace

Value uniform_unit(Builder& b, const SymDims& shape, Value seed, Value offset, DType dtype) {
  if (dtype == DType::kFloat64) {
    const auto [low, high] = two_words(b, shape, seed, offset);
    return b.cast(shl(high & 0x1fffff, 32) + low, dtype) * 0x1p-53;
  }
  const int bits = dtype == DType::kFloat16 ? 11 : dtype == DType::kBFloat16 ? 8 : 24;
  const Value word = b.random_bits(shape, seed, offset) & ((int64_t{1} << bits) - 1);
  return b.cast(word, DType::kFloat32) * (1.0 / static_cast<double>(int64_t{1} << bits));
}

Value normal_unit(Builder& b, const SymDims& shape, Value seed, Value offset, DType dtype) {
  constexpr double kTwoPi = 6.28318530717958647693;
  const auto [radius, angle] = two_words(b, shape, seed, offset);
  const Value u = (b.cast(radius, dtype) + 1.0) * 0x1p-32;  // in (0, 1]
  return sqrt(-2.0 * log(u)) * cos(b.cast(angle, dtype) * (kTwoPi * 0x1p-32));
}

Value random_words(Builder& b, const SymDims& shape, Value seed, Value offset) {
  const auto [low, high] = two_words(b, shape, seed, offset);
  return shl(high & 0x7fffffff, 32) + low;
}

// -- layers

void check_layer_norm(std::string_view op, const Meta& input, const Dims& normalized_shape, const Meta* weight,
                      const Meta* bias) {
  const int lead = input.shape.size() - normalized_shape.size();
  bool fits = !normalized_shape.empty() && lead >= 0;
  for (int i = 0; fits && i < normalized_shape.size(); ++i) fits = normalized_shape[i] == input.shape[lead + i];
  SMOLDER_CHECK(fits, RuntimeError, op, ": given normalized_shape=", normalized_shape,
                ", expected input with shape [*, normalized_shape], but got input of ", to_string(input));
  for (const Meta* affine : {weight, bias}) {
    SMOLDER_CHECK(!affine || affine->shape == normalized_shape, RuntimeError, op,
                  ": expected weight and bias to be of same shape as normalized_shape, but got ", to_string(*affine),
                  " and normalized_shape = ", normalized_shape);
  }
}

Dims channel_axes(int rank) {
  Dims axes{0};
  for (int i = 2; i < rank; ++i) axes.push_back(i);
  return axes;
}

SymDims channel_shape(Value x) {
  SymDims shape(Dims::filled(x.rank(), 1));
  shape[1] = x.shape()[1];
  return shape;
}

void check_channels(std::string_view op, const Meta& input, const Meta* weight, const Meta* bias) {
  SMOLDER_CHECK(input.shape.size() >= 2, RuntimeError, op, ": expected input of at least 2 dimensions, got ",
                to_string(input));
  for (const Meta* affine : {weight, bias}) {
    SMOLDER_CHECK(!affine || (affine->shape.size() == 1 && affine->shape[0] == input.shape[1]), RuntimeError,
                  affine == weight ? "weight" : "bias", " should contain ", input.shape[1], " elements not ",
                  numel(affine->shape));
  }
}

void check_attention(std::string_view op, const Meta& query, const Meta& key, const Meta& value, const Meta* mask) {
  const int rank = query.shape.size();
  check_same_dtype(op, "query", query, "key", key);
  check_same_dtype(op, "query", query, "value", value);
  bool fits = rank >= 2 && key.shape.size() == rank && value.shape.size() == rank;
  for (int i = 0; fits && i < rank - 2; ++i) fits = key.shape[i] == query.shape[i] && value.shape[i] == query.shape[i];
  SMOLDER_CHECK(fits && query.shape.back() == key.shape.back() && key.shape[rank - 2] == value.shape[rank - 2],
                RuntimeError, op,
                ": expected query [..., L, E], key [..., S, E] and value [..., S, Ev] with equal leading sizes, got ",
                to_string(query), ", ", to_string(key), " and ", to_string(value));
  if (!mask) return;
  SMOLDER_CHECK(mask->dtype == DType::kBool || mask->dtype == query.dtype, RuntimeError, op,
                ": expected attn_mask dtype to be bool or that of query, got ", to_string(*mask), " and query ",
                to_string(query));
  Dims scores = query.shape;
  scores.back() = key.shape[rank - 2];
  resolve_expand(mask->shape, scores);
}

Dims attention_shape(Dims shape, int64_t width, bool rows_first) {
  const int rank = shape.size();
  SMOLDER_CHECK(!rows_first || rank >= 3, ValueError, "attention of ", rank, " dimensions has no heads");
  shape.back() = width;
  if (rows_first) std::swap(shape[rank - 2], shape[rank - 3]);
  return shape;
}

// -- attention

namespace {

/// query @ key.T * scale, masked: -inf where attention is not allowed. In the compute type.
Value attention_scores(Value query, Value key, Value mask, Value scale, bool is_causal) {
  constexpr double kMasked = -std::numeric_limits<double>::infinity();
  Builder& b = *query.b;
  const DType wide = compute_type(query.dtype());
  Value scores = matmul(query, b.transpose(key, -1, -2), wide) * scale;
  if (is_causal) scores = where(b.iota(scores.shape(), -1) <= b.iota(scores.shape(), -2), scores, kMasked);
  if (!mask.defined()) return scores;
  return mask.dtype() == DType::kBool ? where(mask, scores, kMasked) : scores + b.cast(mask, wide);
}

/// Zeros where a row sees nothing.
Value attention_weights(Value scores, Value lse, bool has_mask) {
  const Value p = exp(scores - lse);
  return has_mask ? where(lse == -std::numeric_limits<double>::infinity(), 0.0, p) : p;
}

}  // namespace

std::array<Value, 2> attention_values(Value query, Value key, Value value, Value mask, Value scale, bool is_causal) {
  const Value scores = attention_scores(query, key, mask, scale, is_causal);
  const Value lse = logsumexp_keepdim(scores, -1);
  const Value p = attention_weights(scores, lse, mask.defined());
  return {matmul(query.b->cast(p, query.dtype()), value, query.dtype()), lse};
}

std::array<Value, 4> attention_gradients(Value grad, Value query, Value key, Value value, Value mask, Value output,
                                         Value lse, Value scale, bool is_causal) {
  Builder& b = *query.b;
  const DType dtype = query.dtype(), wide = compute_type(dtype);
  const Value p = attention_weights(attention_scores(query, key, mask, scale, is_causal), lse, mask.defined());
  const Value g_wide = b.cast(grad, wide);
  const Value dp = matmul(grad, b.transpose(value, -1, -2), wide);
  const Value ds = p * (dp - sum(g_wide * b.cast(output, wide), {-1}, true));
  const Value scaled = b.cast(ds * scale, dtype);
  const bool additive = mask.defined() && is_floating(mask.dtype());
  return {matmul(scaled, key, dtype), matmul(b.transpose(scaled, -1, -2), query, dtype),
          matmul(b.transpose(b.cast(p, dtype), -1, -2), grad, dtype),
          additive ? sum_to(ds, mask.shape()) : b.cast(b.constant(0.0), dtype)};
}

// -- losses

Value reduce_loss(Value loss, std::string_view reduction) {
  return reduction == "mean" ? mean(loss, {}, false) : reduction == "sum" ? sum(loss, {}, false) : loss;
}

// -- losses over classes

void check_class_loss(std::string_view op, const Meta& input, const Meta& target, const Meta* weight) {
  if (is_floating(target.dtype)) {
    raise<NotImplementedError>(
        op, ": targets that are probabilities are not supported; give class indices (int64), got ", to_string(target));
  }
  check_index(op, "target", target);
  SMOLDER_CHECK(!input.shape.empty(), RuntimeError, op, ": expected input to have a dimension of classes, got ",
                to_string(input));
  const int axis = input.shape.size() == 1 ? 0 : 1;
  Dims expected = input.shape;
  expected.erase(axis);
  SMOLDER_CHECK(axis == 0 || (!target.shape.empty() && target.shape[0] == input.shape[0]), ValueError, op,
                ": Expected input batch_size (", input.shape[0], ") to match target batch_size (",
                target.shape.empty() ? 1 : target.shape[0], "); the input is ", to_string(input), ", the target ",
                to_string(target));
  SMOLDER_CHECK(target.shape == expected, RuntimeError, op, ": expected target of shape ", expected, " for input ",
                to_string(input), ", got ", to_string(target));
  SMOLDER_CHECK(!weight || (weight->shape.size() == 1 && weight->shape[0] == input.shape[axis]), RuntimeError, op,
                ": weight tensor should be defined either for all ", input.shape[axis],
                " classes or no classes but got weight tensor of shape: ", weight->shape);
}

void check_loss_grad(std::string_view op, const Meta& grad, const Meta& target, const Meta& total,
                     std::string_view reduction) {
  const Dims expected = reduction == "none" ? target.shape : Dims();
  SMOLDER_CHECK(grad.shape == expected, RuntimeError, op, ": expected grad_output of shape ", expected, ", got ",
                to_string(grad));
  SMOLDER_CHECK(total.shape.empty(), RuntimeError, op, ": expected total to be zero-dimensional, got ",
                to_string(total));
}

int class_axis(Value input) { return input.rank() == 1 ? 0 : 1; }

ClassTarget class_target(Value input, Value target, Value weight, int64_t ignore_index) {
  Builder& b = *input.b;
  const Value index = b.unsqueeze(b.cast(target, DType::kInt64), class_axis(input));
  ClassTarget at;
  at.valid = index != ignore_index;
  at.index = where(at.valid, index, 0);
  at.weight = b.cast(at.valid, input.dtype());
  if (weight.defined()) at.weight = at.weight * b.take(b.cast(weight, input.dtype()), at.index, 0);
  return at;
}

Value class_weights(Value input, Value weight) {
  Builder& b = *input.b;
  if (!weight.defined()) return b.full(input.shape(), b.constant(1.0), input.dtype());
  const int axis = class_axis(input);
  SymDims shape;
  for (int i = 0; i < input.rank(); ++i) shape.push_back(i == axis ? input.shape()[i] : Dim(1));
  return b.expand(b.reshape(b.cast(weight, input.dtype()), shape), input.shape());
}

// -- optimizers

Value lerp(Value start, Value end, Value weight) {
  const Value near = abs(weight) < 0.5;
  return fma(where(near, weight, weight - 1.0), end - start, where(near, start, end));
}

Value decayed_gradient(Value param, Value grad, Value weight_decay, bool maximize) {
  const Value ascent = maximize ? -grad : grad;
  // Without decay nothing is added: 0 * inf and -0 + 0 must not show.
  return where(weight_decay == 0, ascent, fma(param, weight_decay, ascent));
}

AdamMoments adam_moments(Value grad, Value mean, Value square, Value largest, Value beta1, Value beta2) {
  AdamMoments m;
  m.mean = lerp(mean, grad, 1.0 - beta1);
  m.square = square * beta2 + (1.0 - beta2) * grad * grad;
  m.amsgrad = largest.defined();
  m.largest = m.amsgrad ? maximum(largest, m.square) : m.square;
  return m;
}

Value bias_correction(Value beta, Value step) { return step.weak() ? 1.0 - pow(beta, step) : -expm1(step * log(beta)); }

Value adam_update(Value param, const AdamMoments& m, Value lr, Value beta1, Value beta2, Value eps, Value step) {
  const Value correction1 = bias_correction(beta1, step), correction2 = bias_correction(beta2, step);
  // A number inverted once: a division an element is what would bound an update in cache.
  const Value denominator = fma(sqrt(m.largest), 1.0 / sqrt(correction2), eps);
  return param + -(lr / correction1) * m.mean / denominator;
}

}  // namespace smolder::ir
