#include "smolder/lazy/taken.h"

#include <algorithm>

#include "smolder/core/size.h"
#include "smolder/lazy/ops.h"  // generated

namespace smolder::lazy {
namespace {

enum Kind : int64_t { kWindows, kDiagonal };

struct Windows {
  int axis;
  int64_t size, step;

  explicit Windows(std::span<const int64_t> attrs) : axis(static_cast<int>(attrs[1])), size(attrs[2]), step(attrs[3]) {}
};

/// x with one dimension at another place.
Tensor moved(const Tensor& x, int from, int to) {
  Dims order;
  for (int i = 0; i < x.dim(); ++i) {
    if (i != from) order.push_back(i);
  }
  order.insert(to, from);
  return permute(x, order);
}

/// Windows with their elements side by side along the axis.
Tensor rows_of(const Tensor& windows, const Dims& shape, int axis) {
  Dims rows = shape;
  rows[axis] = (Size(windows.size(axis)) * windows.size(-1)).value();
  return reshape(moved(windows, windows.dim() - 1, axis + 1), rows);
}

/// Windows of no more elements than this are as many slices, which loops read without looking up where each lies.
constexpr int64_t kFewElements = 4;

Tensor take_windows(const Tensor& x, const Windows& w) {
  const int64_t count = (x.size(w.axis) - w.size) / w.step + 1;
  if (w.size <= w.step && count * w.step <= x.size(w.axis)) {  // windows and what is between them, side by side
    Dims shape = x.shape();
    shape[w.axis] = count;
    shape.insert(w.axis + 1, w.step);
    const Tensor apart = reshape(slice(x, w.axis, 0, count * w.step), shape);
    return moved(slice(apart, w.axis + 1, 0, w.size), w.axis + 1, x.dim());
  }
  if (w.size > 0 && w.size <= kFewElements) {
    std::vector<Tensor> elements;
    for (int64_t i = 0; i < w.size; ++i) {
      elements.push_back(slice(x, w.axis, i, i + (count - 1) * w.step + 1, w.step));
    }
    return stack(elements, -1);
  }
  const Tensor at = unsqueeze(arange(count) * w.step, 1) + arange(w.size);
  Dims shape = x.shape();
  shape[w.axis] = count;
  shape.insert(w.axis + 1, w.size);
  return moved(reshape(index_select(x, w.axis, reshape(at, {-1})), shape), w.axis + 1, x.dim());
}

/// x with windows in their place that overlap. An element has what the last of those windows has that were changed: the
/// others were taken before the write.
Tensor put_overlapping(const Tensor& x, const Tensor& windows, const Windows& w) {
  const Tensor now = rows_of(windows, x.shape(), w.axis), before = rows_of(take_windows(x, w), x.shape(), w.axis);
  const Tensor changed = logical_and(ne(now, before), logical_or(eq(now, now), eq(before, before)));  // nan is nan
  const int64_t elements = now.size(w.axis);
  Dims along = Dims::filled(x.dim(), 1);
  along[w.axis] = elements;
  const Tensor order = where(changed, reshape(arange(elements), along), -1);
  const Tensor at = unsqueeze(arange(windows.size(w.axis)) * w.step, 1) + arange(w.size);
  const Tensor last = scatter_reduce(full(x.shape(), -1, DType::kInt64), w.axis,
                                     expand(reshape(at, along), now.shape()), order, "amax");
  return where(ge(last, 0), gather(now, w.axis, maximum(last, 0)), x);
}

Tensor put_windows(const Tensor& x, const Tensor& windows, const Windows& w) {
  if (windows.numel() == 0) return x;
  if (w.step < w.size && windows.size(w.axis) > 1) return put_overlapping(x, windows, w);
  const int64_t n = x.size(w.axis), last = windows.size(w.axis) - 1, every = std::min(w.step, n);
  // The window that an element is in began where it is, or before that; after the last begin it is that one.
  const int64_t begins = ceil_div(n, every);
  const Tensor begun = slice(reshape(expand(unsqueeze(arange(begins), 1), {begins, every}), {-1}), 0, 0, n);
  const Tensor window = minimum(begun, last);
  const Tensor within = arange(n) - window * every, covered = lt(within, w.size);
  const Tensor rows = rows_of(windows, x.shape(), w.axis);
  const Tensor put = index_select(rows, w.axis, where(covered, window * w.size + within, 0));
  Dims along = Dims::filled(x.dim(), 1);
  along[w.axis] = n;
  return where(reshape(covered, along), put, x);
}

Tensor take_diagonal(const Tensor& x) {
  const int64_t n = x.size(-1);
  return slice(reshape(x, flattened(x.shape())), -1, 0, n * n, n + 1);
}

Tensor put_diagonal(const Tensor& x, const Tensor& elements) {
  const int64_t n = x.size(-1);
  return reshape(slice_scatter(reshape(x, flattened(x.shape())), elements, -1, 0, n * n, n + 1), x.shape());
}

}  // namespace

Dims flattened(const Dims& shape) {
  Dims out = shape;
  const int64_t columns = out.back();
  out.pop_back();
  out.back() *= columns;
  return out;
}

std::vector<int64_t> windows_taken(int axis, int64_t size, int64_t step) { return {kWindows, axis, size, step}; }
std::vector<int64_t> diagonal_taken() { return {kDiagonal}; }

Tensor take(const Tensor& x, std::span<const int64_t> attrs) {
  const DeviceMode on(x);
  return attrs[0] == kDiagonal ? take_diagonal(x) : take_windows(x, Windows(attrs));
}

Tensor put_taken(const Tensor& x, const Tensor& taken, std::span<const int64_t> attrs) {
  const DeviceMode on(x);
  return attrs[0] == kDiagonal ? put_diagonal(x, taken) : put_windows(x, taken, Windows(attrs));
}

bool repeats_elements(std::span<const int64_t> attrs) {
  return attrs[0] == kWindows && Windows(attrs).step < Windows(attrs).size;
}

Dims shape_taken(const Dims& shape, std::span<const int64_t> attrs) {
  Dims out = shape;
  if (attrs[0] == kDiagonal) {
    out.pop_back();
  } else {
    const Windows w(attrs);
    out[w.axis] = (out[w.axis] - w.size) / w.step + 1;
    out.push_back(w.size);
  }
  return out;
}

Dims strides_taken(const Dims& strides, std::span<const int64_t> attrs) {
  Dims out = strides;
  if (attrs[0] == kDiagonal) {
    const int64_t column = out.back();
    out.pop_back();
    out.back() += column;
  } else {
    const Windows w(attrs);
    const int64_t within = out[w.axis];
    // As torch's, of one window it says nothing and may be any number.
    out[w.axis] = static_cast<int64_t>(static_cast<uint64_t>(within) * static_cast<uint64_t>(w.step));
    out.push_back(within);
  }
  return out;
}

}  // namespace smolder::lazy
