// Convolutions, and pools as slices that are combined: the elements that a window sees at one place are a slice with
// the window's step, so a pool is elementwise in as many slices as the window is long, one axis after the other.
#include <algorithm>
#include <array>
#include <limits>

#include "smolder/core/size.h"
#include "smolder/ir/decompose.h"

namespace smolder::ir {

// -- convolutions

namespace {

void append_sizes(std::vector<Dim>& words, const SymDims& sizes) {
  words.emplace_back(sizes.size());
  for (const Dim& d : sizes) words.push_back(d);
}

std::vector<Dim> conv_words(const SymDims* sizes, const ConvSteps& steps) {
  std::vector<Dim> words;
  if (sizes) append_sizes(words, *sizes);
  for (const Dims& list : {steps.stride, steps.padding, steps.dilation}) append_sizes(words, SymDims(list));
  words.emplace_back(steps.groups);
  return words;
}

}  // namespace

int64_t num_windows(int64_t n, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
  const int64_t room = (Size(n) + Size(2) * padding - Size(dilation) * (kernel - 1) - 1).value();
  return room < 0 ? 0 : room / stride + 1;
}

Dims conv_shape(std::string_view op, const Meta& x, const Meta& weight, const ConvSteps& steps) {
  check_rank(op, "input", x, 4);
  check_rank(op, "weight", weight, 4);
  check_same_dtype(op, "input", x, "weight", weight);
  SMOLDER_CHECK(steps.stride.size() == 2 && steps.padding.size() == 2 && steps.dilation.size() == 2, RuntimeError, op,
                ": expected two strides, paddings and dilations, got ", steps.stride, ", ", steps.padding, " and ",
                steps.dilation);
  SMOLDER_CHECK(steps.groups > 0 && weight.shape[0] % steps.groups == 0 &&
                    x.shape[1] == (Size(weight.shape[1]) * steps.groups).value(),
                RuntimeError, op, ": input ", to_string(x), " and weight ", to_string(weight), " do not fit ",
                steps.groups, " groups");
  Dims shape{x.shape[0], weight.shape[0]};
  for (int i = 0; i < 2; ++i) {
    SMOLDER_CHECK(steps.stride[i] > 0 && steps.padding[i] >= 0 && steps.dilation[i] > 0, RuntimeError, op,
                  ": stride and dilation must be positive, padding not negative, got ", steps.stride, ", ",
                  steps.dilation, " and ", steps.padding);
    shape.push_back(
        num_windows(x.shape[2 + i], weight.shape[2 + i], steps.stride[i], steps.padding[i], steps.dilation[i]));
    SMOLDER_CHECK(shape.back() > 0, RuntimeError, op, ": a kernel of ", weight.shape, " does not fit the input ",
                  to_string(x), " padded by ", steps.padding);
  }
  return shape;
}

Value convolve(Value x, Value weight, const ConvSteps& steps) {
  SymTable& sym = x.b->sym();
  const SymDims from = x.shape(), w = weight.shape();
  SymDims shape{from[0], w[0]};
  for (int i = 0; i < 2; ++i) {
    const Dim reach = sym.mul(sym.sub(w[2 + i], 1), steps.dilation[i]);
    const Dim room = sym.sub(sym.sub(sym.add(from[2 + i], 2 * steps.padding[i]), reach), 1);
    shape.push_back(sym.add(sym.floor_div(room, steps.stride[i]), 1));
  }
  return x.b->append(Op::kConvForward, {x, weight}, conv_words(nullptr, steps), x.dtype(), shape);
}

Value convolve_back(Value grad, Value weight, const SymDims& size, const ConvSteps& steps) {
  const Dim channels = weight.b->sym().mul(weight.shape()[1], steps.groups);
  const SymDims shape{grad.shape()[0], channels, size[0], size[1]};
  return grad.b->append(Op::kConvBackwardInput, {grad, weight}, conv_words(&size, steps), grad.dtype(), shape);
}

Value convolve_weight(Value grad, Value x, const SymDims& kernel, const ConvSteps& steps) {
  const Dim channels = x.b->sym().floor_div(x.shape()[1], steps.groups);
  const SymDims shape{grad.shape()[1], channels, kernel[0], kernel[1]};
  return x.b->append(Op::kConvBackwardWeight, {grad, x}, conv_words(&kernel, steps), grad.dtype(), shape);
}

// -- pools

namespace {

/// Places of a window that are looked at one after another, each in a few nodes of the graph.
constexpr int64_t kMostTaps = int64_t{1} << 16;

/// How many places of a window ever see one of n elements: what lies beyond is padding, wherever the window is.
int64_t taps_seen(int64_t n, int64_t kernel, int64_t padding, int64_t dilation) {
  return std::min(kernel, ceil_div((Size(n) + padding).value(), dilation));
}

}  // namespace

void check_pool(std::string_view op, const Meta& x, const Dims& kernel, const Dims& stride, const Dims& padding,
                const Dims& dilation, const Dims& size) {
  SMOLDER_CHECK(x.shape.size() >= 2 && kernel.size() == 2 && stride.size() == 2 && padding.size() == 2 &&
                    dilation.size() == 2 && size.size() == 2,
                RuntimeError, op, ": expected two sizes for the last two dimensions of input ", to_string(x));
  constexpr int64_t kMost = int64_t{1} << 31;  // so that products fit
  for (int i = 0; i < 2; ++i) {
    const bool fit = std::ranges::all_of(std::array{kernel[i], stride[i], padding[i], dilation[i], size[i]},
                                         [](int64_t v) { return v >= 0 && v <= kMost; });
    const int64_t n = x.shape[x.shape.size() - 2 + i], last = fit ? (size[i] - 1) * stride[i] : 0;
    SMOLDER_CHECK(fit && 2 * padding[i] <= (kernel[i] - 1) * dilation[i] + 1 && kernel[i] > 0 && stride[i] > 0 &&
                      dilation[i] > 0 && padding[i] >= 0 && size[i] > 0 && last - padding[i] < n && n > 0,
                  RuntimeError, op, ": a window of ", kernel, " with stride ", stride, ", padding ", padding,
                  " and dilation ", dilation, " has no ", size, " places in input ", to_string(x));
    const bool whole =
        (stride[i] == kernel[i] || size[i] == 1) && padding[i] == 0 && dilation[i] == 1 && size[i] * kernel[i] <= n;
    SMOLDER_CHECK(whole || taps_seen(n, kernel[i], padding[i], dilation[i]) <= kMostTaps, NotImplementedError, op,
                  ": windows of ", kernel, " elements over input ", to_string(x), " are not supported: at most ",
                  kMostTaps, " elements along a dimension");
  }
}

Dims pooled_shape(Dims shape, const Dims& size) {
  shape[shape.size() - 2] = size[0];
  shape[shape.size() - 1] = size[1];
  return shape;
}

namespace {

/// Elements from which on a window, or a plane, is reduced: of fewer, slices are fewer instructions.
constexpr int64_t kReduced = 16;

bool is_one(SymTable& sym, Dim d) { return d.value == 1 && sym.equal(d, 1); }

/// Windows along one axis of `n` elements.
struct Windows {
  int axis;
  int64_t kernel, stride, padding, dilation;
  Dim size;  ///< how many

  /// The same windows over n elements, without the places that see none: so work follows from the elements, whatever
  /// numbers a file has.
  Windows within(SymTable& sym, Dim n) const {
    Windows w = *this;
    const Dim seen = sym.ceil_div(sym.add(n, padding), dilation);
    if (!sym.less_equal(kernel, seen)) {
      sym.equal(seen, seen.value);
      w.kernel = seen.value;
    }
    if (w.kernel == 1) w.dilation = 1;
    if (is_one(sym, size)) w.stride = w.kernel;
    return w;
  }
  /// Whether they are long, and lie one behind the other within n elements.
  bool are_reduced(SymTable& sym, Dim n) const {
    return kernel >= kReduced && stride == kernel && dilation == 1 && padding == 0 && size.value * kernel <= n.value &&
           sym.less_equal(sym.mul(size, kernel), n);
  }
  /// `x` with an axis more, behind this one, along which the elements of a window are.
  Value cut(Value x) const {
    SymDims shape = x.shape();
    const Dim used = x.b->sym().mul(size, kernel);
    if (!x.b->sym().equal(used, shape[axis])) x = x.b->slice(x, axis, 0, used);
    shape[axis] = size;
    shape.insert(axis + 1, kernel);
    return x.b->reshape(x, shape);
  }
  /// Elements from the first place of the first window to the last of the last.
  Dim reach(SymTable& sym) const { return sym.add(sym.mul(sym.sub(size, 1), stride), dilation * (kernel - 1) + 1); }
  /// `x` with `fill` where windows look beyond it.
  Value padded(Value x, Scalar fill) const {
    SymTable& sym = x.b->sym();
    const Dim have = sym.add(x.size(axis), padding), need = reach(sym);
    const bool fits = sym.less_equal(need, have);
    if (padding == 0 && fits) return x;
    SymDims low = SymDims(Dims::filled(x.rank(), 0)), high = low;
    low[axis] = padding;
    if (!fits) high[axis] = sym.sub(need, have);
    return x.b->pad(x, low, high, fill);
  }
  /// The elements that the windows on a padded `x` see at place `tap`.
  Value seen(Value x, int64_t tap) const {
    SymTable& sym = x.b->sym();
    const int64_t start = tap * dilation;
    return x.b->slice(x, axis, start, sym.add(sym.mul(sym.sub(size, 1), stride), start + 1), stride);
  }
  /// Where each window begins, of `shape`; before the input where negative.
  Value begin(Builder& b, const SymDims& shape) const { return b.iota(shape, axis) * stride - padding; }
  /// The first place of each that is within an input of n elements (or, where none is, the last element).
  Value first(Builder& b, const SymDims& shape, Dim n) const {
    const Value from = begin(b, shape);
    if (padding == 0) return from;
    const Value inside = where(from < 0, remainder(from, dilation), from);
    return dilation == 1 ? inside : minimum(inside, b.number(n) - 1);
  }
};

Windows windows_at(Value x, int i, const Dims& kernel, const Dims& stride, const Dims& padding, const Dims& dilation,
                   const SymDims& size) {
  return {x.rank() - 2 + i, kernel[i], stride[i], padding[i], dilation[i], size[i]};
}

Scalar lowest(DType t) {
  if (is_floating(t)) return -kInfinity;
  return lowest_integer(t);
}

/// max_windows along one axis, of windows that are reduced: the graph does not grow with them. `inner` are indices
/// within what was reduced before, if something was, of rows of `width`.
std::array<Value, 2> reduce_max(Value x, Value inner, const Windows& w, Dim width) {
  Builder& b = *x.b;
  SymDims shape = x.shape();
  shape[w.axis] = w.size;
  const Value parts = w.cut(x), best = b.reduce(ReduceKind::kMax, parts, {w.axis + 1}, true);
  Value here = b.iota(parts.shape(), w.axis) * w.kernel + b.iota(parts.shape(), w.axis + 1);
  if (inner.defined()) here = here * b.number(width) + w.cut(inner);
  const Value none = b.constant(std::numeric_limits<int64_t>::max());
  Value place = b.reduce(ReduceKind::kMin, where(parts == best, here, none), {w.axis + 1}, true);
  if (is_floating(x.dtype())) {  // the last nan, as of those that are looked at in order
    const Value last =
        b.reduce(ReduceKind::kMax, where(isnan(parts), here, b.constant(int64_t{-1})), {w.axis + 1}, true);
    place = where(last >= int64_t{0}, last, place);
  }
  return {b.reshape(best, shape), b.reshape(place, shape)};
}

}  // namespace

std::array<Value, 2> max_windows(Value x, const Dims& kernel, const Dims& stride, const Dims& padding,
                                 const Dims& dilation, const SymDims& size) {
  Builder& b = *x.b;
  const Dim width = x.size(-1);
  const Scalar low = lowest(x.dtype());
  Value at;  // in the rows reduced so far
  for (int i = 1; i >= 0; --i) {
    const Windows w = windows_at(x, i, kernel, stride, padding, dilation, size).within(b.sym(), x.size(i - 2));
    if (w.are_reduced(b.sym(), x.size(w.axis))) {
      const auto [largest, its] = reduce_max(x, at, w, width);
      x = largest;
      at = its;
      continue;
    }
    const Value from = w.padded(x, low), inner = at.defined() ? w.padded(at, int64_t{0}) : Value();
    SymDims shape = x.shape();
    shape[w.axis] = w.size;
    const Value begin = w.begin(b, shape);
    const auto index = [&](Value position, Value within) {
      return within.defined() ? position * b.number(width) + within : position;
    };
    // A window that sees nothing larger than the lowest number is said to be at its first place.
    Value column;
    if (inner.defined()) {
      column = windows_at(x, 1, kernel, stride, padding, dilation, size).within(b.sym(), width).first(b, shape, width);
    }
    Value best, place = index(w.first(b, shape, x.size(w.axis)), column);
    for (int64_t tap = 0; tap < w.kernel; ++tap) {
      const Value v = w.seen(from, tap);
      const Value larger = best.defined() ? v > best : v > b.constant(low);
      const Value taken = is_floating(v.dtype()) ? logical_or(larger, isnan(v)) : larger;
      const Value here = index(begin + tap * w.dilation, inner.defined() ? w.seen(inner, tap) : Value());
      place = where(taken, here, place);
      best = best.defined() ? maximum(best, v) : v;
    }
    x = best;
    at = place;
  }
  return {x, at};
}

namespace {

/// Zeros before and after the elements of an axis.
Value padded(Value x, int axis, Dim before, Dim after) {
  SymDims low = SymDims(Dims::filled(x.rank(), 0)), high = low;
  low[axis] = before;
  high[axis] = after;
  return before == Dim(0) && after == Dim(0) ? x : x.b->pad(x, low, high, 0.0);
}

}  // namespace

Value sum_windows(Value x, const Dims& kernel, const Dims& stride, const Dims& padding, const SymDims& size) {
  SymTable& sym = x.b->sym();
  const auto is_all = [&](int i) {
    return is_one(sym, size[i]) && padding[i] == 0 && sym.equal(x.size(x.rank() - 2 + i), kernel[i]);
  };
  if (kernel[0] * kernel[1] >= kReduced && is_all(0) && is_all(1))
    return x.b->reduce(ReduceKind::kSum, x, {x.rank() - 2, x.rank() - 1}, true);
  for (int i = 1; i >= 0; --i) {
    const Dim n = x.size(i - 2);
    const Windows w = windows_at(x, i, kernel, stride, padding, {1, 1}, size).within(sym, n);
    if (w.are_reduced(sym, n)) {
      SymDims shape = x.shape();
      shape[w.axis] = w.size;
      x = x.b->reshape(x.b->reduce(ReduceKind::kSum, w.cut(x), {w.axis + 1}, true), shape);
      continue;
    }
    const Value from = w.padded(x, 0.0);
    Value sum = w.seen(from, 0);
    for (int64_t tap = 1; tap < w.kernel; ++tap) sum = sum + w.seen(from, tap);
    x = sum;
  }
  return x;
}

Value spread_windows(Value x, const Dims& kernel, const Dims& stride, const Dims& padding, const SymDims& size) {
  Builder& b = *x.b;
  SymTable& sym = b.sym();
  for (int i = 0; i < 2; ++i) {
    // Element q * stride + r of the padded input is seen by windows q, q - 1, ...: by the j-th at place r + j * stride.
    const int axis = x.rank() - 2 + i;
    const Windows w = Windows{axis, kernel[i], stride[i], padding[i], 1, x.size(axis)}.within(sym, size[i]);
    const int64_t step = w.stride, seen = ceil_div(w.kernel, step);
    Value sum;
    for (int64_t j = 0; j < seen; ++j) {
      Value part = padded(x, axis, j, seen - 1 - j);
      if (step > 1) {
        const int64_t places = std::min(step, w.kernel - j * step);
        SymDims shape = part.shape();
        shape.insert(axis + 1, places);
        part = padded(b.expand(b.unsqueeze(part, axis + 1), shape), axis + 1, 0, step - places);
      }
      sum = sum.defined() ? sum + part : part;
    }
    SymDims shape = x.shape();
    shape[axis] = sym.mul(sym.add(shape[axis], seen - 1), step);
    if (step > 1) sum = b.reshape(sum, shape);
    const Dim end = sym.add(size[i], padding[i]);
    if (!sym.less_equal(end, shape[axis])) sum = padded(sum, axis, 0, sym.sub(end, shape[axis]));
    x = b.slice(sum, axis, padding[i], end);
  }
  return x;
}

Value window_sizes(Builder& b, const SymDims& input, const Dims& kernel, const Dims& stride, const Dims& padding,
                   const SymDims& size, bool count_include_pad, DType dtype) {
  SymTable& sym = b.sym();
  Value sizes = b.constant(1.0);
  for (int i = 0; i < 2; ++i) {
    const Windows w{i, kernel[i], stride[i], padding[i], 1, size[i]};
    const Dim padded = sym.add(input[i], 2 * w.padding);
    if ((count_include_pad || w.padding == 0) && sym.less_equal(w.reach(sym), padded)) {
      sizes = sizes * static_cast<double>(w.kernel);
      continue;
    }
    SymDims shape{1, 1};
    shape[i] = w.size;
    const Value begin = w.begin(b, shape), end = minimum(begin + w.kernel, b.number(sym.add(input[i], w.padding)));
    const Value count = count_include_pad ? end - begin : minimum(end, b.number(input[i])) - maximum(begin, 0);
    sizes = b.cast(count, dtype) * sizes;
  }
  return sizes;
}

}  // namespace smolder::ir
