#include "smolder/lazy/strides.h"

#include <algorithm>
#include <optional>

#include "smolder/lazy/taken.h"

namespace smolder::lazy {
namespace {

/// Strides of `to` over the elements of `from`; none when only a copy has them. After ATen's computeStride.
std::optional<Dims> reshaped(const Dims& from, const Dims& from_strides, const Dims& to) {
  if (numel(from) == 0) return from == to ? from_strides : contiguous_strides(to);
  if (from.empty()) return Dims::filled(to.size(), 1);
  Dims out = Dims::filled(to.size(), 0);
  int at = to.size() - 1;
  int64_t chunk_stride = from_strides.back(), from_count = 1, to_count = 1;
  for (int d = from.size() - 1; d >= 0; --d) {
    from_count *= from[d];
    const bool goes_on = d > 0 && (from[d - 1] == 1 || from_strides[d - 1] == from_count * chunk_stride);
    if (goes_on) continue;
    while (at >= 0 && (to_count < from_count || to[at] == 1)) {
      out[at] = to_count * chunk_stride;
      to_count *= to[at--];
    }
    if (to_count != from_count) return std::nullopt;
    if (d > 0) {
      chunk_stride = from_strides[d - 1];
      from_count = to_count = 1;
    }
  }
  if (at >= 0) return std::nullopt;
  return out;
}

Dims expanded(const Dims& from, Dims strides, const Dims& to) {
  const int added = to.size() - from.size();
  for (int i = 0; i < from.size(); ++i) {
    if (from[i] != to[added + i]) strides[i] = 0;
  }
  for (int i = 0; i < added; ++i) strides.insert(0, 0);
  return strides;
}

}  // namespace

std::vector<const ViewStep*> steps_in_order(const ViewStep* last) {
  std::vector<const ViewStep*> out;
  for (; last; last = last->before.get()) out.push_back(last);
  std::reverse(out.begin(), out.end());
  return out;
}

Layout layout_after(const ViewStep& step, Layout l, const Dims& to) {
  const Dims& from = step.input->shape;
  const auto axis = [&](int i) { return normalize_axis(step.attrs[i], from.size()); };
  Dims& strides = l.strides;
  switch (step.op) {
    case ir::Op::kTranspose:
      if (!from.empty()) std::swap(strides[axis(0)], strides[axis(1)]);
      break;
    case ir::Op::kPermute: {
      Dims out = strides;
      for (int i = 0; i < from.size(); ++i) out[i] = strides[axis(1 + i)];
      strides = out;
      break;
    }
    case ir::Op::kSelect: {
      const int64_t at = step.attrs[1], extent = from[axis(0)];
      l.offset += (at < 0 ? at + extent : at) * strides[axis(0)];
      strides.erase(axis(0));
      break;
    }
    case ir::Op::kSqueeze:
      if (to.size() < from.size()) strides.erase(axis(0));
      break;
    case ir::Op::kUnsqueeze: {
      const int at = normalize_axis(step.attrs[0], to.size());
      strides.insert(at, at < from.size() ? from[at] * strides[at] : 1);
      break;
    }
    case ir::Op::kSlice:
      l.offset += step.attrs[1] * strides[axis(0)];
      strides[axis(0)] *= step.attrs[3];
      break;
    case kTaken:
      strides = strides_taken(strides, step.attrs);
      break;
    case ir::Op::kExpand:
      strides = expanded(from, strides, to);
      break;
    case ir::Op::kViewAsReal:
      for (int64_t& s : strides) s *= 2;
      strides.push_back(1);
      l.offset *= 2;
      break;
    case ir::Op::kViewAsComplex:
      strides.erase(strides.size() - 1);
      for (int64_t& s : strides) s /= 2;
      l.offset /= 2;
      break;
    default:  // what has no strides here was never made a view
      strides = reshaped(from, strides, to).value_or(contiguous_strides(to));
  }
  return l;
}

namespace {

/// `in_value`: where elements are among those of the base's value, not in the memory that it would have in torch.
Layout layout_of(const TensorImpl* impl, bool in_value = false) {
  const Dims& shape = impl->value->meta->shape;
  if (!impl->base) {
    if (impl->external) return {impl->external->strides};
    return {impl->order && !in_value ? strides_in_order(shape, *impl->order) : contiguous_strides(shape)};
  }
  const TensorImpl* const base = impl->base;
  const bool is_row_major = !base->base && !base->external && (!base->order || in_value);
  if (is_row_major) return impl->steps ? impl->steps->layout : Layout{contiguous_strides(shape)};
  Layout out = layout_of(base, in_value);
  const std::vector<const ViewStep*> steps = steps_in_order(impl->steps.get());
  for (size_t i = 0; i < steps.size(); ++i) {
    out = layout_after(*steps[i], out, i + 1 < steps.size() ? steps[i + 1]->input->shape : shape);
  }
  return out;
}

}  // namespace

Layout layout(const Tensor& t) { return layout_of(t.impl()); }
int64_t offset_in_value(const Tensor& t) { return layout_of(t.impl(), true).offset; }

bool is_contiguous(const Tensor& t) {
  return !t.impl()->may_be_window() || smolder::is_contiguous(t.shape(), strides(t));
}

bool can_view(const Tensor& t, const Dims& shape) {
  return !t.impl()->may_be_window() || reshaped(t.shape(), strides(t), shape).has_value();
}

bool is_dense(const Dims& shape, const Dims& strides) {
  std::vector<int> axes;
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1) axes.push_back(i);
  }
  std::ranges::sort(axes, {}, [&](int i) { return strides[i]; });
  int64_t expected = 1;
  for (const int i : axes) {
    if (strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

Dims strides_in_order(const Dims& shape, const Dims& order) {
  Dims out = shape;
  int64_t stride = 1;
  for (int i = order.size(); i-- > 0;) {
    out[order[i]] = stride;
    stride *= std::max<int64_t>(shape[order[i]], 1);
  }
  return out;
}

}  // namespace smolder::lazy
