#include "smolder/eager/view.h"

#include "smolder/ir/attrs.h"

namespace smolder::eager {
namespace {

using ir::Op;

/// Moves the first element by `elements`.
void advance(TensorView& v, int64_t elements) {
  v.data = static_cast<char*>(v.data) + elements * static_cast<int64_t>(itemsize(v.dtype));
}

/// Strides of `shape` on the memory of `in`, when there are any: each run of axes of `in` that is one walk through
/// memory may be cut anew.
std::optional<Dims> reshaped_strides(const TensorView& in, const Dims& shape) {
  if (numel(shape) == 0) return contiguous_strides(shape);
  Dims strides = Dims::filled(shape.size(), 1);
  int to = shape.size() - 1;
  int64_t run = 1, done = 1;  // elements of `in` and of `shape` in the walk so far
  int64_t stride = in.shape.empty() ? 1 : in.strides.back();
  for (int a = in.shape.size() - 1; a >= 0; --a) {
    run *= in.shape[a];
    const bool ends = a == 0 || (in.shape[a - 1] != 1 && in.strides[a - 1] != run * stride);
    if (!ends) continue;
    for (; to >= 0 && (done < run || shape[to] == 1); --to) {
      strides[to] = done * stride;
      done *= shape[to];
    }
    if (done != run) return std::nullopt;
    if (a > 0) {
      stride = in.strides[a - 1];
      run = done = 1;
    }
  }
  return strides;
}

}  // namespace

bool is_view(Op op) {
  return op == Op::kReshape || op == Op::kPermute || op == Op::kExpand || op == Op::kSlice || op == Op::kFlip ||
         op == Op::kBarrier;
}

std::optional<TensorView> view_of(Op op, const TensorView& in, std::span<const int64_t> attrs, const Dims& out_shape) {
  TensorView out = in;
  out.shape = out_shape;
  ir::AttrReader words(attrs);
  switch (op) {
    case Op::kReshape: {
      const auto strides = reshaped_strides(in, out_shape);
      if (!strides) return std::nullopt;
      out.strides = *strides;
      break;
    }
    case Op::kPermute: {
      const Dims axes = words.integers();
      for (int a = 0; a < axes.size(); ++a) out.strides[a] = in.strides[normalize_axis(axes[a], axes.size())];
      break;
    }
    case Op::kExpand: {
      const int lead = out_shape.size() - in.shape.size();
      out.strides = Dims::filled(out_shape.size(), 0);
      for (int a = 0; a < in.shape.size(); ++a) {
        if (in.shape[a] == out_shape[a + lead]) out.strides[a + lead] = in.strides[a];
      }
      break;
    }
    case Op::kSlice: {
      const int axis = normalize_axis(words.integer(), in.shape.size());
      const int64_t start = words.size();
      words.size();
      if (numel(out_shape) > 0) advance(out, start * in.strides[axis]);
      out.strides[axis] = in.strides[axis] * words.integer();
      break;
    }
    case Op::kFlip:
      for (int64_t a : words.integers()) {
        const int axis = normalize_axis(a, in.shape.size());
        if (in.shape[axis] > 0) advance(out, (in.shape[axis] - 1) * in.strides[axis]);
        out.strides[axis] = -in.strides[axis];
      }
      break;
    default:
      break;
  }
  return out;
}

}  // namespace smolder::eager
