#include "smolder/ir/decompose.h"

#include <algorithm>
#include <limits>

namespace smolder::ir {
namespace {

/// Leading axes of a product's operand, without the two of the matrix.
SymDims batch_of(const SymDims& shape) {
  SymDims out;
  for (int i = 0; i + 2 < shape.size(); ++i) out.push_back(shape[i]);
  return out;
}

SymDims with_matrix(SymDims batch, Dim rows, Dim columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

SymDims broadcast_batch(SymTable& sym, SymDims a, SymDims b) {
  if (a.size() < b.size()) std::swap(a, b);
  const int lead = a.size() - b.size();
  for (int i = 0; i < b.size(); ++i) {
    if (b[i] == a[i + lead] || b[i].value == 1) continue;
    if (a[i + lead].value == 1) {
      a[i + lead] = b[i];
    } else {
      SMOLDER_INVARIANT(sym.equal(a[i + lead], b[i]));
    }
  }
  return a;
}

SymDims drop_axes(SymDims shape, const Dims& axes) {
  const Dims reduced = reduction_axes("reduce", axes, shape.size());
  for (int i = reduced.size() - 1; i >= 0; --i) shape.erase(static_cast<int>(reduced[i]));
  return shape;
}

/// Both at least matrices.
Value matmul_batched(Value a, Value b, DType out, Value bias) {
  Builder& build = *a.b;
  SymTable& sym = build.sym();
  const Dim m = a.size(-2), k = a.size(-1), n = b.size(-1);
  if (m == Dim(1) && n == Dim(1) && b.rank() > 2 && !bias.defined()) {
    // Each matrix is one element, which a kernel sums at the speed of memory, with what is computed before and after.
    // One by itself is a product, as a row of a batch has the same bits in any batch.
    const Value row = in_compute_type(a, out), column = in_compute_type(build.transpose(b, -2, -1), out);
    const Value product = row * column;
    return build.cast(sum(product, {product.rank() - 1}, true), out);
  }
  if (b.rank() == 2) {  // one matrix for the whole batch: fold the batch into its rows
    Dim rows = m;
    for (const Dim& d : batch_of(a.shape())) rows = sym.mul(rows, d);
    const Value flat = build.dot(build.reshape(a, {rows, k}), b, out, bias);
    return build.reshape(flat, with_matrix(batch_of(a.shape()), m, n));
  }
  SMOLDER_INVARIANT(!bias.defined());
  const SymDims batch = broadcast_batch(sym, batch_of(a.shape()), batch_of(b.shape()));
  return build.dot(build.expand(a, with_matrix(batch, m, k)), build.expand(b, with_matrix(batch, k, n)), out);
}

}  // namespace

std::vector<int> axis_list(const Dims& axes) { return {axes.begin(), axes.end()}; }

Value in_compute_type(Value x, DType dtype) { return !x.defined() || x.weak() ? x : x.b->cast(x, compute_type(dtype)); }

ValueId finish(Op op, Value v, const ValueInfo& recorded) {
  SMOLDER_CHECK(v.shape().values() == recorded.shape.values(), InternalError, "internal error: ", name(op),
                " was recorded with shape ", recorded.shape.values(), " but decomposes to ", v.shape().values(),
                "; please report it");
  if (recorded.weak && v.weak()) return v.id;
  return v.b->cast(v, recorded.dtype).id;
}

Value count(Value x, const Dims& axes) {
  Dim n = 1;
  for (int a = 0; a < x.rank(); ++a) {
    const bool reduced =
        std::any_of(axes.begin(), axes.end(), [&](int64_t r) { return normalize_axis(r, x.rank()) == a; });
    if (axes.empty() || reduced) n = x.b->sym().mul(n, x.shape()[a]);
  }
  return x.b->number(n);
}

Value sum(Value x, const Dims& axes, bool keepdim) {
  return x.b->reduce(ReduceKind::kSum, x, axis_list(axes), keepdim);
}
Value mean(Value x, const Dims& axes, bool keepdim) { return sum(x, axes, keepdim) / count(x, axes); }
Value amax(Value x, const Dims& axes, bool keepdim) {
  const ReduceKind kind = x.dtype() == DType::kBool ? ReduceKind::kAny : ReduceKind::kMax;
  return x.b->reduce(kind, x, axis_list(axes), keepdim);
}
Value amin(Value x, const Dims& axes, bool keepdim) {
  const ReduceKind kind = x.dtype() == DType::kBool ? ReduceKind::kAll : ReduceKind::kMin;
  return x.b->reduce(kind, x, axis_list(axes), keepdim);
}

Value logsumexp_keepdim(Value x, int axis) { return logsumexp(x, {axis}, true); }

Value logsumexp(Value x, const Dims& axes, bool keepdim) {
  const Value top = amax(x, axes, true);
  // inf - inf would be nan: rows whose maximum is infinite are not shifted.
  const Value shift = where(abs(top) == kInfinity, 0.0, top);
  const Value y = shift + log(sum(exp(x - shift), axes, true));
  return keepdim ? y : x.b->reshape(y, drop_axes(y.shape(), axes));
}

namespace {

/// First position along an axis where x equals its extreme value, or is nan. Of a long axis that is where a chunk has
/// it, so that only that is looked at again.
Value first_along(ReduceKind kind, Value x, int axis) {
  Builder& b = *x.b;
  const auto positions = [&](Value near, Value at) {
    Value hit = near == b.reduce(kind, near, {axis}, true);
    if (is_floating(near.dtype())) hit = logical_or(hit, isnan(near));
    return b.reduce(ReduceKind::kMin, where(hit, at, b.number(x.size(axis))), {axis}, true);
  };
  // Columns lie apart: an element takes as long as a line of a cache does.
  constexpr int64_t kManyChunks = 64;
  const int64_t chunk = b.reduce_chunk(x.shape(), axis);
  const bool is_near = axis == x.rank() - 1;
  if (chunk == 0 || (!is_near && !b.sym().less_equal(chunk * kManyChunks, x.size(axis))))
    return positions(x, b.iota(x.shape(), axis));
  const Value begin = first_along(kind, b.reduce_axis(kind, x, axis, chunk), axis) * chunk;
  SymDims near = x.shape();
  near[axis] = chunk;
  const Value at = minimum(begin + b.iota(near, axis), b.number(b.sym().sub(x.shape()[axis], 1)));
  return positions(b.take_along(x, at, axis), at);
}

/// The same of all elements where there is no `dim`.
Value first_position(bool largest, Value x, std::optional<int64_t> dim, bool keepdim) {
  Builder& b = *x.b;
  const SymDims shape = x.shape();
  if (!dim || x.rank() == 0) x = b.reshape(x, {b.sym().numel(shape)});
  const int axis = dim ? normalize_axis(*dim, x.rank()) : 0;
  const bool is_bool = x.dtype() == DType::kBool;
  const ReduceKind most = is_bool ? ReduceKind::kAny : ReduceKind::kMax,
                   least = is_bool ? ReduceKind::kAll : ReduceKind::kMin;
  const Value first = first_along(largest ? most : least, x, axis);
  SymDims result;
  for (int i = 0; i < shape.size(); ++i) {
    const bool reduced = !dim || i == axis;
    if (!reduced || keepdim) result.push_back(reduced ? Dim(1) : shape[i]);
  }
  return b.reshape(first, result);
}

}  // namespace

Value argmax(Value x, std::optional<int64_t> dim, bool keepdim) { return first_position(true, x, dim, keepdim); }
Value argmin(Value x, std::optional<int64_t> dim, bool keepdim) { return first_position(false, x, dim, keepdim); }

namespace {

/// Each part's first element at all elements of the part.
Value first_of_part(Value x, int axis, int64_t chunk) {
  Builder& b = *x.b;
  const SymDims all = x.shape();
  if (chunk == 0) return b.expand(b.slice(x, axis, 0, 1), all);
  const Value firsts = b.slice(x, axis, 0, all[axis], chunk);
  SymDims parts, spread, joined = firsts.shape();
  for (int i = 0; i < joined.size(); ++i) {
    parts.push_back(joined[i]);
    spread.push_back(joined[i]);
    if (i == axis) parts.push_back(1), spread.push_back(chunk);
  }
  joined[axis] = b.sym().mul(joined[axis], chunk);
  return b.slice(b.reshape(b.expand(b.reshape(firsts, parts), spread), joined), axis, 0, all[axis]);
}

}  // namespace

// Elements are read once. Their first reduction, of parts of an axis, is of distances from the first of each part: what
// these lose is a few bits of what the part's own squares come to, wherever the mean is. Then what parts come to is put
// together.
Moments moments(Value x, const Dims& axes) {
  Builder& b = *x.b;
  const Builder::Merged merged = x.rank() == 0 ? Builder::Merged{} : b.merge_reduced(x.shape(), axis_list(axes));
  const int axis = merged.axes.empty() ? 0 : merged.axes.back();
  const int64_t chunk = merged.axes.empty() ? 0 : b.reduce_chunk(merged.shape, axis);
  const bool is_row = chunk == 0 && axis == static_cast<int>(merged.shape.size()) - 1;
  // A row that is reduced at once is near when it is read again, and so are few columns.
  const bool at_once = merged.axes.size() <= 1 && chunk == 0;
  const bool is_empty = std::ranges::any_of(merged.shape, [](const Dim& n) { return n.value == 0; });
  if (at_once || is_empty || merged.shape.size() == kMaxRank) {
    const Value average = mean(x, axes, true), centered = x - average;
    return {average, sum(centered * centered, axes, true)};
  }
  x = b.reshape(x, merged.shape);
  Dims reduced;
  for (const int a : merged.axes) reduced.push_back(a);
  Value size = b.number(merged.shape[axis]);
  const auto add = [&](Value y) { return b.reduce_axis(ReduceKind::kSum, y, axis, chunk); };
  // Near each part's mean: that of a row is at hand.
  const Value near = is_row
                         ? add(x) / size
                         : b.slice(x, axis, 0, chunk != 0 ? merged.shape[axis] : Dim(1), std::max<int64_t>(chunk, 1));
  const Value apart = x - (is_row ? near : first_of_part(x, axis, chunk)), sums = add(apart), all = add(apart * apart);
  if (chunk != 0) {
    SymDims ones;
    for (int i = 0; i < merged.shape.size(); ++i) ones.push_back(i == axis ? sums.shape()[i] : Dim(1));
    size = b.cast(minimum(size - b.iota(ones, axis) * chunk, chunk), x.dtype());
  }
  const Value beyond = sums / size, squares = maximum(all - sums * beyond, 0.0);
  Value base = near;
  for (const int a : merged.axes) base = b.slice(base, a, 0, 1);
  const Value means = near - base + beyond, average = sum(means * size, reduced, true) / count(x, reduced);
  const Value from_average = means - average;
  const Value total = sum(squares + from_average * from_average * size, reduced, true);
  return {b.reshape(base + average, merged.kept), b.reshape(total, merged.kept)};
}

Value variance(Value x, const Dims& axes, bool keepdim, Value correction) {
  const Value y = moments(x, axes).squares / maximum(count(x, axes) - correction, 0);
  return keepdim ? y : x.b->reshape(y, drop_axes(y.shape(), axes));
}

Value vector_norm(Value x, double p, const Dims& axes, bool keepdim) {
  const Value size = abs(x);
  if (p == kInfinity) return amax(size, axes, keepdim);
  if (p == -kInfinity) return amin(size, axes, keepdim);
  if (p == 0) return sum(x.b->cast(x != 0.0, x.dtype()), axes, keepdim);
  if (p == 1) return sum(size, axes, keepdim);
  if (p == 2) return sqrt(sum(x * x, axes, keepdim));
  return pow(sum(pow(size, p), axes, keepdim), 1 / p);
}

Dims last_axes(int n) {
  Dims out;
  for (int i = 1; i <= n; ++i) out.push_back(-i);
  return out;
}

Value matmul(Value a, Value b, DType out, Value bias) {
  Builder& build = *a.b;
  const bool vector_a = a.rank() == 1, vector_b = b.rank() == 1;
  if (vector_a && vector_b && !bias.defined()) {
    return build.cast(sum(in_compute_type(a, out) * in_compute_type(b, out), {0}, false), out);
  }
  if (vector_a) a = build.unsqueeze(a, 0);
  if (vector_b) b = build.unsqueeze(b, 1);
  Value y = matmul_batched(a, b, out, bias);
  SymDims shape = y.shape();
  if (vector_b) shape.erase(shape.size() - 1);
  if (vector_a) shape.erase(shape.size() - (vector_b ? 1 : 2));
  return build.reshape(y, shape);
}

Value weight_int8pack_mm(Value x, Value weight, Value scales, DType out) {
  Builder& b = *x.b;
  const DType compute = compute_type(out);
  const Value scale = in_compute_type(scales, out);
  if (b.sym().less_equal(x.shape()[0], kFewInt8Rows)) {
    const Value rows = b.unsqueeze(in_compute_type(x, out), 1), columns = b.unsqueeze(b.cast(weight, compute), 0);
    return sum(rows * columns, {2}, false) * scale;
  }
  return matmul(x, b.transpose(b.cast(weight, x.dtype()), 0, 1), compute) * scale;
}

Value sum_to(Value x, const SymDims& shape) {
  const int lead = x.rank() - shape.size();
  std::vector<int> axes;
  for (int i = 0; i < x.rank(); ++i) {
    if (i < lead || (shape[i - lead] == Dim(1) && x.shape()[i] != Dim(1))) axes.push_back(i);
  }
  if (!axes.empty()) x = x.b->reduce(ReduceKind::kSum, x, axes, true);
  return x.b->reshape(x, shape);
}

namespace {

/// The number itself where it is 0 or 1: the plan is for that alone.
Dim settled(SymTable& sym, Dim d) { return d.value <= 1 && sym.equal(d, d.value) ? Dim(d.value) : d; }

/// Whether elements along `axis` are neighbours in memory, and there are several rows of them. Kernels that know where
/// a row begins read several of its elements at once.
bool are_neighbours(Value x, int axis) {
  if (axis != x.rank() - 1) return false;
  const SymDims shape = x.shape();
  return std::any_of(shape.begin(), shape.end() - 1, [](const Dim& d) { return d.value > 1; });
}

}  // namespace

Dim settled_start(Value slice, int axis, Dim start) {
  axis = normalize_axis(axis, slice.rank());
  const bool settles = !(slice.shape()[axis] == Dim(1)) || are_neighbours(slice, axis);
  return settles ? settled(slice.b->sym(), start) : start;
}

Value slice_of(Value x, int axis, Dim start, Dim stop, int64_t step) {
  SymTable& sym = x.b->sym();
  axis = normalize_axis(axis, x.rank());
  const bool is_one = stop.value - start.value == 1;
  if (!is_one || are_neighbours(x, axis)) start = settled(sym, start);
  if (is_one) {
    sym.equal(stop, sym.add(start, 1));
    stop = sym.add(start, 1);
  } else if (start.is_constant()) {  // then it is an extent, or one more
    stop = settled(sym, stop);
  }
  return x.b->slice(x, axis, start, stop, step);
}

Value unslice(Value x, int axis, Dim length, Dim start, int64_t step) {
  Builder& b = *x.b;
  SymTable& sym = b.sym();
  const int rank = x.rank();
  axis = normalize_axis(axis, rank);
  if (step > 1 && !sym.less_equal(x.shape()[axis], 0)) {
    // Each element becomes a run of `step`, the last run is cut to one.
    Value spread = b.unsqueeze(x, axis + 1);
    SymDims none, high;
    for (int i = 0; i <= rank; ++i) {
      none.push_back(0);
      high.push_back(i == axis + 1 ? step - 1 : 0);
    }
    spread = b.pad(spread, none, high, 0.0);
    SymDims shape = x.shape();
    const Dim last = sym.mul(sym.sub(shape[axis], 1), step);
    shape[axis] = sym.mul(shape[axis], step);
    x = b.slice(b.reshape(spread, shape), axis, 0, sym.add(last, 1));
  }
  SymDims low, high;
  for (int i = 0; i < rank; ++i) {
    low.push_back(i == axis ? start : Dim(0));
    high.push_back(i == axis ? sym.sub(sym.sub(length, start), x.shape()[i]) : Dim(0));
  }
  return b.pad(x, low, high, 0.0);
}

std::array<Value, 2> running_extreme(ScanKind kind, Value x, int axis) {
  Builder& b = *x.b;
  if (x.rank() == 0) return {x, b.full({}, b.constant(0), DType::kInt64)};
  const Value values = b.scan(kind, x, axis);
  Value hit = x == values;
  if (is_floating(x.dtype())) hit = logical_or(hit, isnan(x));
  return {values, b.scan(ScanKind::kMax, where(hit, b.iota(x.shape(), normalize_axis(axis, x.rank())), 0), axis)};
}

Value add_product(Value x, Value product, Value beta, Value alpha) {
  Builder& b = *x.b;
  const Value wide = b.cast(x, product.dtype());
  if (!is_floating(product.dtype())) {  // as torch, which cuts the factors of integers
    beta = b.cast(beta, product.dtype());
    alpha = b.cast(alpha, product.dtype());
  }
  return where(beta == 0, 0, wide * beta) + product * alpha;
}

}  // namespace smolder::ir
