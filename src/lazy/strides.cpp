#include "smolder/lazy/strides.h"

#include "smolder/lazy/view.h"

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

Dims after(const ViewStep& step, Dims strides, const Dims& to) {
  const Dims& from = step.input->shape;
  const auto axis = [&](int i) { return normalize_axis(step.attrs[i], from.size()); };
  switch (step.op) {
    case ir::Op::kTranspose:
      std::swap(strides[axis(0)], strides[axis(1)]);
      return strides;
    case ir::Op::kPermute: {
      Dims out = strides;
      for (int i = 0; i < from.size(); ++i) out[i] = strides[axis(1 + i)];
      return out;
    }
    case ir::Op::kSelect:
      strides.erase(axis(0));
      return strides;
    case ir::Op::kSqueeze:
      if (to.size() < from.size()) strides.erase(axis(0));
      return strides;
    case ir::Op::kUnsqueeze: {
      const int at = normalize_axis(step.attrs[0], to.size());
      strides.insert(at, at < from.size() ? from[at] * strides[at] : 1);
      return strides;
    }
    case ir::Op::kSlice:
      strides[axis(0)] *= step.attrs[3];
      return strides;
    case ir::Op::kExpand:
      return expanded(from, strides, to);
    default:  // what has no strides here was never made a view
      return reshaped(from, strides, to).value_or(contiguous_strides(to));
  }
}

Dims strides_of(const TensorImpl* impl) {
  const Dims& shape = impl->value->meta->shape;
  if (!impl->base) return contiguous_strides(shape);
  Dims out = strides_of(impl->base);
  const std::vector<ViewStep>& steps = *impl->steps;
  for (size_t i = 0; i < steps.size(); ++i) {
    out = after(steps[i], out, i + 1 < steps.size() ? steps[i + 1].input->shape : shape);
  }
  return out;
}

bool is_window(const Tensor& t) { return t.impl()->base && !(t.impl()->steps->empty() && !t.impl()->base->base); }

}  // namespace

Dims strides(const Tensor& t) { return strides_of(t.impl()); }

bool is_contiguous(const Tensor& t) { return !is_window(t) || smolder::is_contiguous(t.shape(), strides(t)); }

bool can_view(const Tensor& t, const Dims& shape) {
  return !is_window(t) || reshaped(t.shape(), strides(t), shape).has_value();
}

}  // namespace smolder::lazy
