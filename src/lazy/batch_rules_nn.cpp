// Rules of layers and losses.
#include <bit>
#include <utility>

#include "smolder/ir/infer.h"
#include "smolder/lazy/batch_rule_names.h"  // generated
#include "smolder/lazy/batch_rules.h"
#include "smolder/lazy/op_support.h"
#include "smolder/lazy/ops.h"  // generated

namespace smolder::lazy::batch {
namespace {

using Tensors = std::vector<Tensor>;

Dims list_at(std::span<const int64_t>& words) {
  const auto n = static_cast<size_t>(words[0]);
  Dims out(words.subspan(1, n));
  words = words.subspan(1 + n);
  return out;
}

/// All dimensions of `t` but the batch, up to `end`.
Dims inner(const Tensor& t, int end = -1) {
  Dims out;
  for (int i = 1; i < (end < 0 ? t.dim() : end); ++i) out.push_back(i);
  return out;
}
Tensor summed(const Tensor& t, const Dims& dims) { return dims.empty() ? t : smolder::sum(t, dims); }

}  // namespace

// -- convolutions: a batch of images is more images, and a batch of filters more filters, or groups of them

namespace {

struct Windows {
  Dims stride, padding, dilation;
  int64_t groups;
};
Windows windows_at(std::span<const int64_t> words) {
  const Dims stride = list_at(words), padding = list_at(words), dilation = list_at(words);
  return {stride, padding, dilation, words[0]};
}

}  // namespace

Tensors convolve(const BatchCall& c) {  // (self, weight)
  const auto [stride, padding, dilation, groups] = windows_at(c.attrs);
  if (!c.spread(1)) {
    const Tensor images = c.folded(c.elements(0), 0);
    return {c.unfolded(conv_forward(images, c.elements(1), stride, padding, dilation, groups), 0)};
  }
  const Tensor filters = c.folded(c.elements(1), 0);
  if (!c.spread(0) && groups == 1) {
    return {c.unfolded(conv_forward(c.elements(0), filters, stride, padding, dilation, 1), 1)};
  }
  const Tensor images = c.folded(c.front(0), 1);
  return {c.unfolded(conv_forward(images, filters, stride, padding, dilation, groups * c.size), 1)};
}

Tensors convolve_back(const BatchCall& c) {  // (grad_output, weight)
  std::span<const int64_t> words = c.attrs;
  const Dims input = list_at(words);
  const auto [stride, padding, dilation, groups] = windows_at(words);
  if (!c.spread(1)) {
    const Tensor grads = c.folded(c.elements(0), 0);
    return {c.unfolded(conv_backward_input(grads, c.elements(1), input, stride, padding, dilation, groups), 0)};
  }
  const Tensor grads = c.folded(c.front(0), 1), filters = c.folded(c.elements(1), 0);
  return {c.unfolded(conv_backward_input(grads, filters, input, stride, padding, dilation, groups * c.size), 1)};
}

Tensors convolve_weight(const BatchCall& c) {  // (grad_output, self)
  std::span<const int64_t> words = c.attrs;
  const Dims kernel = list_at(words);
  const auto [stride, padding, dilation, groups] = windows_at(words);
  if (groups == 1 && !c.spread(1)) {
    const Tensor grads = c.folded(c.elements(0), 1);
    return {c.unfolded(conv_backward_weight(grads, c.elements(1), kernel, stride, padding, dilation, 1), 0)};
  }
  if (groups == 1 && !c.spread(0)) {
    const Tensor images = c.folded(c.elements(1), 1);
    return {c.unfolded(conv_backward_weight(c.elements(0), images, kernel, stride, padding, dilation, 1), 1)};
  }
  const Tensor grads = c.folded(c.front(0), 1), images = c.folded(c.front(1), 1);
  return {c.unfolded(conv_backward_weight(grads, images, kernel, stride, padding, dilation, groups * c.size), 0)};
}

// -- normalisation

Tensors layer_normalize(const BatchCall& c) {  // (self, weight, bias, eps)
  const Tensor all = c.front(0);
  const bool apart = c.any_spread({1, 2});
  const Tensor weight = apart ? Tensor() : c.elements(1), bias = apart ? Tensor() : c.elements(2);
  const Operand given[] = {all, Operand::optional(weight), Operand::optional(bias), c.operands[3]};
  Tensors out = c.call(given, c.attrs);
  if (apart && c.has(1)) out[0] = out[0] * c.padded(1, c.rank(0));
  if (apart && c.has(2)) out[0] = out[0] + c.padded(2, c.rank(0));
  return out;
}

Tensors layer_normalize_back(const BatchCall& c) {  // (grad_output, self, mean, rstd, weight)
  const GradMode none(false);                       // as of the op, which has no gradient
  const Tensor grads = c.front(0), all = c.front(1), mean = c.front(2), rstd = c.front(3);
  const Tensor scaled = c.spread(4) ? grads * c.padded(4, c.rank(1)) : grads;
  const Tensor weight = c.spread(4) ? Tensor() : c.elements(4);
  const Operand given[] = {scaled, all, mean, rstd, Operand::optional(weight)};
  const Dims lead = inner(all, 1 + c.rank(1) - static_cast<int>(c.attrs[0]));
  const Tensor wide = grads.to(mean.dtype()), normal = (all.to(mean.dtype()) - mean) * rstd;
  return {c.call(given, c.attrs)[0], summed(wide * normal, lead), summed(wide, lead)};
}

namespace {

/// A vector of channels for each element, one after the other.
Tensor of_channels(const BatchCall& c, size_t i) {
  return c.has(i) ? reshape(c.front(i), {c.size * numel(c.shape(i))}) : Tensor();
}

}  // namespace

Tensors batch_normalize(const BatchCall& c) {  // (self, weight, bias, eps): a channel of each element is a channel
  const Tensor all = c.folded(c.front(0), 1), weight = of_channels(c, 1), bias = of_channels(c, 2);
  const Operand given[] = {all, Operand::optional(weight), Operand::optional(bias), c.operands[3]};
  Tensors out = c.call(given, c.attrs);
  out[0] = c.unfolded(out[0], 1);
  return out;
}

Tensors batch_normalize_back(const BatchCall& c) {  // (grad_output, self, mean, var, weight, eps)
  const Tensor grads = c.folded(c.front(0), 1), all = c.folded(c.front(1), 1);
  const Tensor mean = of_channels(c, 2), var = of_channels(c, 3), weight = of_channels(c, 4);
  const Operand given[] = {grads, all, mean, var, Operand::optional(weight), c.operands[5]};
  Tensors out = c.call(given, c.attrs);
  out[0] = c.unfolded(out[0], 1);
  return out;
}

// -- attention: the batch is another leading dimension

namespace {

/// A mask with the batch before dimensions of 1, up to those of a query; undefined where there is none.
Tensor mask_of(const BatchCall& c, size_t i, size_t query) {
  if (!c.has(i)) return {};
  Dims shape{c.size};
  for (int k = c.rank(i); k < c.rank(query); ++k) shape.push_back(1);
  for (const int64_t n : c.shape(i)) shape.push_back(n);
  return reshape(c.front(i), shape);
}

}  // namespace

Tensors attend(const BatchCall& c) {  // (query, key, value, attn_mask, scale)
  const Tensor query = c.front(0), key = c.front(1), value = c.front(2), mask = mask_of(c, 3, 0);
  const Operand given[] = {query, key, value, Operand::optional(mask), c.operands[4]};
  return c.call(given, c.attrs);
}

Tensors attend_back(const BatchCall& c) {  // (grad_output, query, key, value, attn_mask, output, lse, scale)
  const Tensor grads = c.front(0), query = c.front(1), key = c.front(2), value = c.front(3), mask = mask_of(c, 4, 1);
  const Tensor output = c.front(5), lse = c.front(6);
  const Operand given[] = {grads, query, key, value, Operand::optional(mask), output, lse, c.operands[7]};
  Tensors out = c.call(given, c.attrs);
  if (out[3].dim() == 0) out[3] = expand(out[3], {c.size});  // there is no gradient of a mask
  return out;
}

// -- losses of classes: rows of all elements are rows, and are reduced by element

namespace {

/// Operand `i`, whose first dimension is that of rows (unless an element is one), with rows of all elements.
Tensor rows_of(const BatchCall& c, size_t i, bool one) {
  const Tensor all = c.front(i);
  return one ? all : c.folded(all, 0);
}
Tensor back(const BatchCall& c, const Tensor& rows, bool one) { return one ? rows : c.unfolded(rows, 0); }

enum Reduction : int64_t { kNone, kMean, kSum };

/// Sums of the weights of targets that count, of each element.
Tensor total_weight(const BatchCall& c, const Tensor& weight, int64_t ignored, DType dtype) {
  const Tensor target = c.front(1), counts = target != ignored;
  if (!weight.defined()) return summed(counts.to(dtype), inner(target));
  const Tensor at = where(counts, target, 0);
  const Tensor each = reshape(index_select(weight.to(dtype), 0, reshape(at, {at.numel()})), at.shape());
  return summed(where(counts, each, 0.0), inner(target));
}

Tensor reduced_rows(const Tensor& rows, const Tensor& total, int64_t reduction) {
  if (reduction == kNone) return rows;
  const Tensor sums = summed(rows.to(total.dtype()), inner(rows));
  return reduction == kSum ? sums : sums / total;
}

// Class weights that differ by element: the ops that the losses are decomposed into, on elements.

/// Targets of an element and what their classes weigh, with the dimension of classes.
struct WeighedTargets {
  Tensor valid, index, weight, classes;  ///< the last, weights by class
  int axis;
};

WeighedTargets weighed_targets(const BatchCall& c, size_t self, size_t target, size_t weight, DType wide) {
  const int rank = c.rank(self), axis = rank == 1 ? 0 : 1;
  const Tensor t = unsqueeze(c.element(target), axis), valid = t != c.attrs[0], index = where(valid, t, 0);
  const Tensor w = c.element(weight).detach().to(wide);
  Dims by_class = Dims::filled(rank, 1);
  by_class[axis] = w.size(0);
  const Tensor at = reshape(index_select(w, 0, reshape(index, {index.numel()})), index.shape());
  return {valid, index, where(valid, at, 0.0), reshape(w, by_class), axis};
}

/// Losses of an element's rows, reduced, and the sum of their weights.
std::pair<Tensor, Tensor> reduced_element(const Tensor& rows, const WeighedTargets& t, int64_t reduction) {
  const Tensor each = squeeze(where(t.valid, rows, 0.0), t.axis), total = smolder::sum(t.weight);
  if (reduction == kNone) return {each, total};
  return {reduction == kSum ? smolder::sum(each) : smolder::sum(each) / total, total};
}

Tensors classify_by_weight(const BatchCall& c) {
  return c.parts([&]() -> Tensors {
    const DType wide = c.results[1].dtype;
    const Tensor x = c.element(0).to(wide);
    const WeighedTargets t = weighed_targets(c, 0, 1, 2, wide);
    const Tensor lse = logsumexp(x, t.axis, true);
    const double smoothing = std::bit_cast<double>(c.attrs[2]);
    Tensor rows = (lse - gather(x, t.axis, t.index)) * t.weight;
    if (smoothing != 0) {
      const double share = smoothing / static_cast<double>(x.size(t.axis));
      rows = rows * (1.0 - smoothing) + smolder::sum((lse - x) * t.classes, t.axis, true) * share;
    }
    const auto [loss, total] = reduced_element(rows, t, c.attrs[1]);
    return {loss, squeeze(lse, t.axis), total};
  });
}

Tensors pick_class_by_weight(const BatchCall& c) {
  return c.parts([&]() -> Tensors {
    const DType wide = c.results[1].dtype;
    const Tensor x = c.element(0).to(wide);
    const WeighedTargets t = weighed_targets(c, 0, 1, 2, wide);
    const auto [loss, total] = reduced_element(neg(gather(x, t.axis, t.index)) * t.weight, t, c.attrs[1]);
    return {loss, total};
  });
}

/// The gradient of a row of an element, as it is reduced.
Tensor scale_of_element(const BatchCall& c, size_t total, int axis, DType wide) {
  const Tensor grad = c.element(0).to(wide);
  if (c.attrs[1] == kNone) return unsqueeze(grad, axis);
  return c.attrs[1] == kMean ? grad / c.element(total).detach() : grad;
}

Tensor hits(const Tensor& x, const WeighedTargets& t) {
  Dims by_class = Dims::filled(x.dim(), 1);
  by_class[t.axis] = x.size(t.axis);
  return reshape(arange(x.size(t.axis)), by_class) == t.index;
}

Tensors classify_back_by_weight(const BatchCall& c) {
  return c.parts([&]() -> Tensors {
    const DType wide = c.operands[5].meta()->dtype;
    const Tensor x = c.element(1).to(wide);
    const WeighedTargets t = weighed_targets(c, 1, 2, 3, wide);
    const Tensor p = exp(x - unsqueeze(c.element(4), t.axis));
    const double smoothing = std::bit_cast<double>(c.attrs[2]);
    Tensor g = where(hits(x, t), p - 1, p) * t.weight;
    if (smoothing != 0) {
      const double share = smoothing / static_cast<double>(x.size(t.axis));
      g = g * (1.0 - smoothing) + (p * smolder::sum(t.classes, t.axis, true) - t.classes) * share;
    }
    return {where(t.valid, g * scale_of_element(c, 5, t.axis, wide), 0.0)};
  });
}

Tensors pick_class_back_by_weight(const BatchCall& c) {
  return c.parts([&]() -> Tensors {
    const DType wide = c.operands[4].meta()->dtype;
    const WeighedTargets t = weighed_targets(c, 1, 2, 3, wide);
    const Tensor hit = logical_and(hits(c.element(1), t), t.valid);
    return {where(hit, neg(scale_of_element(c, 4, t.axis, wide) * t.weight), 0.0)};
  });
}

/// The factor of each row's gradient.
Tensor scale_of_rows(const BatchCall& c, size_t grad, size_t total, const Tensor& target, int64_t reduction) {
  Tensor scale = c.front(grad);
  if (reduction == kNone) return scale;
  if (reduction == kMean) scale = scale / c.front(total).detach();
  Dims shape = Dims::filled(target.dim(), 1);
  shape[0] = c.size;
  return expand(reshape(scale, shape), target.shape()).to(c.operands[grad].meta()->dtype);
}

}  // namespace

Tensors classify(const BatchCall& c) {  // cross_entropy(self, target, weight; ignore_index, reduction, smoothing)
  if (c.spread(2)) return classify_by_weight(c);
  const bool one = c.rank(0) == 1;
  const Tensor rows = rows_of(c, 0, one), target = rows_of(c, 1, one), weight = c.elements(2);
  const Operand given[] = {rows, target, Operand::optional(weight)};
  const int64_t words[] = {c.attrs[0], kNone, c.attrs[2]};
  const Tensors each = c.call(given, words);
  const Tensor total = total_weight(c, weight, c.attrs[0], c.results[2].dtype);
  return {reduced_rows(back(c, each[0], one), total, c.attrs[1]), back(c, each[1], one), total};
}

Tensors classify_back(const BatchCall& c) {  // (grad_output, self, target, weight, lse, total; ...)
  const GradMode none(false);
  if (c.spread(3)) return classify_back_by_weight(c);
  const bool one = c.rank(1) == 1;
  const Tensor rows = rows_of(c, 1, one), target = rows_of(c, 2, one), lse = rows_of(c, 4, one);
  const Tensor scale = scale_of_rows(c, 0, 5, c.front(2), c.attrs[1]);
  const Tensor grads = one ? scale : c.folded(scale, 0), weight = c.elements(3);
  const Tensor unused = full({}, 1.0, c.operands[5].meta()->dtype);
  const Operand given[] = {grads, rows, target, Operand::optional(weight), lse, unused};
  const int64_t words[] = {c.attrs[0], kNone, c.attrs[2]};
  return {back(c, c.call(given, words)[0], one)};
}

Tensors pick_class(const BatchCall& c) {  // nll_loss(self, target, weight; ignore_index, reduction)
  if (c.spread(2)) return pick_class_by_weight(c);
  const bool one = c.rank(0) == 1;
  const Tensor rows = rows_of(c, 0, one), target = rows_of(c, 1, one), weight = c.elements(2);
  const Operand given[] = {rows, target, Operand::optional(weight)};
  const int64_t words[] = {c.attrs[0], kNone};
  const Tensor each = back(c, c.call(given, words)[0], one);
  const Tensor total = total_weight(c, weight, c.attrs[0], c.results[1].dtype);
  return {reduced_rows(each, total, c.attrs[1]), total};
}

Tensors pick_class_back(const BatchCall& c) {  // (grad_output, self, target, weight, total; ...)
  if (c.spread(3)) return pick_class_back_by_weight(c);
  const bool one = c.rank(1) == 1;
  const Tensor rows = rows_of(c, 1, one), target = rows_of(c, 2, one), weight = c.elements(3);
  const Tensor scale = scale_of_rows(c, 0, 4, c.front(2), c.attrs[1]);
  const Tensor grads = one ? scale : c.folded(scale, 0);
  const Tensor unused = full({}, 1.0, c.operands[4].meta()->dtype);
  const Operand given[] = {grads, rows, target, Operand::optional(weight), unused};
  const int64_t words[] = {c.attrs[0], kNone};
  return {back(c, c.call(given, words)[0], one)};
}

}  // namespace smolder::lazy::batch
