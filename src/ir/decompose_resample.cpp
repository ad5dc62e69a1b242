// An axis in another size. What an element is made of follows from its number alone, tap by tap, so that a kernel
// computes an element from there, of all axes at once, and a gradient gathers, too.
#include <algorithm>
#include <cmath>

#include "smolder/ir/decompose.h"

namespace smolder::ir {

namespace {

/// Taps of a gradient up to which each has a place of its own in the text.
constexpr int64_t kWritten = 8;

/// The parts of an element: numbers of elements, and their weights. Without weights the only one counts one.
struct Taps {
  std::vector<Value> places, weights;
};

constexpr double kCubic = -0.75;

/// Keys's cubic, of distances up to 1 and up to 2.
Value cubic_near(Value d) { return ((kCubic + 2) * d - (kCubic + 3)) * d * d + 1.0; }
Value cubic_far(Value d) { return ((kCubic * d - 5 * kCubic) * d + 8 * kCubic) * d - 4 * kCubic; }

/// The parts of elements `at` of the result, where the axis has n.
Taps taps_of(const Resampling& r, Value at, Dim n, DType dtype) {
  Builder& b = *at.b;
  const Value last = b.number(n) - 1, number = b.cast(at, dtype);
  const auto whole = [&](Value x) { return b.cast(floor(x), DType::kInt64); };
  if (r.mode == "nearest") return {{minimum(whole(number * r.scale), last)}, {}};
  if (r.mode == "exact") return {{minimum(whole((number + 0.5) * r.scale), last)}, {}};
  const Value from = r.align_corners ? number * r.scale : (number + 0.5) * r.scale - 0.5;
  if (r.mode == "linear") {
    const Value inside = maximum(from, 0.0), low = minimum(whole(inside), last);
    const Value up = minimum(inside - b.cast(low, dtype), 1.0);
    return {{low, minimum(low + 1, last)}, {1.0 - up, up}};
  }
  const Value low = floor(from), t = from - low;
  Taps taps{{}, {cubic_far(t + 1.0), cubic_near(t), cubic_near(1.0 - t), cubic_far(2.0 - t)}};
  for (int i = -1; i < 3; ++i) taps.places.push_back(minimum(maximum(b.cast(low, DType::kInt64) + i, 0), last));
  return taps;
}

/// Broadcasts a vector as long as `axis`, or of that and one axis more.
Value beside(Value v, Value x, int axis) {
  SymDims shape = v.shape();
  for (int i = axis + v.rank(); i < x.rank(); ++i) shape.push_back(1);
  return v.b->reshape(v, shape);
}

}  // namespace

Value resample_axis(Value x, const Resampling& r) {
  Builder& b = *x.b;
  const Taps taps = taps_of(r, b.iota({r.size}, 0), x.size(r.axis), x.dtype());
  if (taps.weights.empty()) return b.take(x, taps.places[0], r.axis);
  Value y;
  for (size_t i = 0; i < taps.places.size(); ++i) {
    const Value seen = b.take(x, taps.places[i], r.axis), part = seen * beside(taps.weights[i], seen, r.axis);
    y = y.defined() ? y + part : part;
  }
  return y;
}

Value resample_back(Value grad, const Resampling& r, const Resampling::Band& band) {
  Builder& b = *grad.b;
  const DType dtype = grad.dtype();
  const Value last = b.number(grad.size(r.axis)) - 1;
  /// The weights of elements `to` of the input in elements `at` of the result; nothing where these are beyond the last.
  const auto counts = [&](Value to, Value at) {
    const Taps taps = taps_of(r, minimum(at, last), r.size, dtype);
    Value sum;
    for (size_t i = 0; i < taps.places.size(); ++i) {
      const Value weight = taps.weights.empty() ? b.constant(1.0, dtype) : taps.weights[i];
      const Value part = where(taps.places[i] == to, weight, 0.0);
      sum = sum.defined() ? sum + part : part;
    }
    return where(at <= last, sum, 0.0);
  };
  // The first element of the result that an element may be in: where it is the last that is looked at.
  const auto first_of = [&](Value to) {
    const bool is_nearest = r.mode == "nearest" || r.mode == "exact";
    const Value from = b.cast(to, dtype) - (is_nearest ? 0.0 : r.mode == "linear" ? 1.0 : 2.0);
    const Value at = r.mode == "nearest" || r.align_corners ? from / r.scale
                     : is_nearest                           ? from / r.scale - 0.5
                                                            : (from + 0.5) / r.scale - 0.5;
    return minimum(maximum(b.cast(ceil(at), DType::kInt64) - band.lead, 0), last);
  };
  if (band.taps > kWritten) {
    const SymDims shape{r.size, band.taps};
    const Value to = b.iota(shape, 0), at = first_of(to) + b.iota(shape, 1);
    const Value seen = b.take(grad, minimum(at, last), r.axis);
    SymDims without = seen.shape();
    without.erase(r.axis + 1);
    return b.reshape(b.reduce(ReduceKind::kSum, seen * beside(counts(to, at), seen, r.axis), {r.axis + 1}, true),
                     without);
  }
  const Value to = b.iota({r.size}, 0), first = first_of(to);
  Value y;
  for (int64_t i = 0; i < band.taps; ++i) {
    const Value at = first + i, seen = b.take(grad, minimum(at, last), r.axis);
    const Value part = seen * beside(counts(to, at), seen, r.axis);
    y = y.defined() ? y + part : part;
  }
  return y;
}

namespace {

/// The same arithmetic for numbers, in T.
template <class T>
Resampling::Band band_in(int64_t n, int64_t size, double given, std::string_view mode, bool align_corners) {
  const T scale = static_cast<T>(given), half = T(0.5);
  const bool plain = mode == "nearest" || align_corners, is_nearest = mode == "nearest" || mode == "exact";
  const auto whole = [&](T x) {
    return std::clamp(static_cast<int64_t>(std::clamp(x, T(-8), T(n) + 8)), int64_t{-8}, n + 8);
  };
  const int below = mode == "cubic" ? 1 : 0, above = is_nearest ? 0 : mode == "linear" ? 1 : 2;
  std::vector<int64_t> first(static_cast<size_t>(n), size), last(static_cast<size_t>(n), -1);
  for (int64_t at = 0; at < size; ++at) {
    T from = plain ? static_cast<T>(at) * scale : (static_cast<T>(at) + half) * scale;
    if (!plain && !is_nearest) from = from - half;
    const bool alone = mode == "linear" && from <= 0;  // the second would count nothing
    if (alone) from = 0;
    const int64_t low = whole(std::floor(from));
    for (int64_t i = low - below; i <= low + (alone ? 0 : above); ++i) {
      const auto place = static_cast<size_t>(std::clamp<int64_t>(i, 0, n - 1));
      first[place] = std::min(first[place], at);
      last[place] = std::max(last[place], at);
    }
  }
  Resampling::Band band{1, 0};
  std::vector<int64_t> begins(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const T from = static_cast<T>(i) - static_cast<T>(is_nearest ? 0 : mode == "linear" ? 1 : 2);
    T at = plain || is_nearest ? from / scale : (from + half) / scale;
    if (!plain) at = at - half;
    const T most = static_cast<T>(size);
    const int64_t begin = std::isfinite(at) ? static_cast<int64_t>(std::clamp(std::ceil(at), -most, most)) : 0;
    begins[static_cast<size_t>(i)] = begin;
    const int64_t seen = first[static_cast<size_t>(i)];
    if (seen < size) band.lead = std::max(band.lead, std::min(begin, size - 1) - seen);
  }
  for (int64_t i = 0; i < n; ++i) {
    const auto k = static_cast<size_t>(i);
    const int64_t begin = std::clamp<int64_t>(begins[k] - band.lead, 0, size - 1);
    if (last[k] >= 0) band.taps = std::max(band.taps, last[k] - begin + 1);
  }
  return band;
}

}  // namespace

Resampling::Band band_of(int64_t n, int64_t size, double scale, std::string_view mode, bool align_corners,
                         DType dtype) {
  return dtype == DType::kFloat64 ? band_in<double>(n, size, scale, mode, align_corners)
                                  : band_in<float>(n, size, scale, mode, align_corners);
}

}  // namespace smolder::ir
