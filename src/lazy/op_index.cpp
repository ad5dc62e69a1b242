// The functions behind the rows of scatter.toml and sort.toml: indices in several dimensions, masks, and ops whose
// shapes depend on data. Only these read values, each under the name of the op that asked.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "smolder/core/memory_history.h"
#include "smolder/core/size.h"
#include "smolder/core/thread_pool.h"
#include "smolder/ir/infer.h"
#include "smolder/lazy/op_support.h"
#include "smolder/lazy/ops.h"

namespace smolder::lazy {
namespace {

/// Indices of several dimensions as one of the dimensions taken together.
struct Place {
  Tensor rows;    ///< a vector: numbers of rows
  Dims shape;     ///< what the indices broadcast to
  Dims together;  ///< of the tensor, with the indexed dimensions as one
  int axis;
};

Place place_of(const Tensor& x, int64_t dim, TensorList indices) {
  SMOLDER_CHECK(indices.size() > 0, RuntimeError, "index: expected at least one index tensor");
  const int axis = ir::check_axis("index", dim, x.dim()), count = static_cast<int>(indices.size());
  SMOLDER_CHECK(axis + count <= x.dim(), IndexError, "too many indices for tensor of dimension ", x.dim());
  Place p{{}, indices.data()[0].shape(), x.shape(), axis};
  for (int i = 0; i < count; ++i) {
    const Tensor& index = indices.data()[i];
    SMOLDER_CHECK(index.dtype() == DType::kInt64 || index.dtype() == DType::kInt32, IndexError,
                  "tensors used as indices must be long, int, byte or bool tensors");
    try {
      p.shape = broadcast_shapes(p.shape, index.shape(), "index");
    } catch (const RuntimeError&) {
      raise<IndexError>("shape mismatch: indexing tensors could not be broadcast together with shapes ", p.shape, ", ",
                        index.shape());
    }
  }
  int64_t all = 1;
  for (int i = 0; i < count; ++i) all *= x.size(axis + i);
  SMOLDER_CHECK(all > 0 || numel(p.shape) == 0, IndexError, "index is out of bounds for dimension with size 0");
  for (int i = 0; i < count; ++i) {
    const int64_t n = x.size(axis + i);
    const Tensor at = wrapped_index(indices.data()[i], n);
    p.rows = p.rows.defined() ? p.rows * n + at : at;
    if (i > 0) p.together.erase(axis + 1);
  }
  p.together[axis] = all;
  p.rows = reshape(expand(p.rows, p.shape), {numel(p.shape)});
  return p;
}

/// p.together with the rows replaced by `middle`.
Dims with_middle(const Place& p, const Dims& middle) {
  Dims out;
  for (int i = 0; i < p.axis; ++i) out.push_back(p.together[i]);
  for (int64_t n : middle) out.push_back(n);
  for (int i = p.axis + 1; i < p.together.size(); ++i) out.push_back(p.together[i]);
  return out;
}

/// The Trues of a flat mask counted from 0; `none` elsewhere.
Tensor numbers_of(const Tensor& flat, int64_t none) { return where(flat, cumsum(flat, 0) - 1, none); }

/// Trues of a mask are looked for in blocks, which threads share. In memory of others any byte but 0 is one.
constexpr int64_t kMaskBlock = 1 << 16;

/// How many Trues come before each block, and in all.
std::vector<int64_t> trues_before(const uint8_t* mask, int64_t n) {
  const int64_t blocks = (n + kMaskBlock - 1) / kMaskBlock;
  std::vector<int64_t> before(static_cast<size_t>(blocks) + 1);
  parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const uint8_t *const from = mask + b * kMaskBlock, *const to = mask + std::min(n, (b + 1) * kMaskBlock);
      before[static_cast<size_t>(b) + 1] = std::count_if(from, to, [](uint8_t x) { return x != 0; });
    }
  });
  std::partial_sum(before.begin(), before.end(), before.begin());
  return before;
}

/// Writes the index of each True from position `begin` to `end` of a mask of this shape.
void write_trues(const uint8_t* mask, int64_t begin, int64_t end, const Dims& shape, int64_t* out) {
  constexpr int64_t kTogether = 64;
  for (; begin < end; begin += kTogether) {
    int64_t found[kTogether + 1], count = 0;
    for (int64_t i = begin; i < std::min(end, begin + kTogether); ++i) {  // without a branch, which none could foresee
      found[count] = i;
      count += mask[i] != 0;
    }
    for (int64_t k = 0; k < count; ++k, out += shape.size()) {
      int64_t at = found[k];
      for (int d = shape.size(); d-- > 1; at /= shape[d]) out[d] = at % shape[d];
      if (!shape.empty()) out[0] = at;
    }
  }
}

/// The index of each True of a mask, a row for each, of the dimensions of `shape`, which has as many elements. On the
/// CPU: their number must be read in any case, and once the mask is in memory one look at it takes less than recording
/// a search of several kernels, which is a trace of its own for every number.
Tensor trues_on_cpu(const Tensor& mask, const Dims& shape, std::string_view reason) {
  const int64_t n = mask.numel();
  const BufferRef elements = n == 0 ? nullptr : mask.materialize(reason);  // no value is needed of none
  const auto* const from = elements ? static_cast<const uint8_t*>(elements->data()) : nullptr;
  const std::vector<int64_t> before = trues_before(from, n);
  const Dims result{before.back(), shape.size()};
  const MemoryFor use(reason, capture_source());
  BufferRef found = allocate(static_cast<size_t>(storage_bytes(result, DType::kInt64)));
  auto* const out = static_cast<int64_t*>(found->data());
  parallel_for(static_cast<int64_t>(before.size()) - 1, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      write_trues(from, b * kMaskBlock, std::min(n, (b + 1) * kMaskBlock), shape, out + before[b] * shape.size());
    }
  });
  return Tensor::from_buffer(std::move(found), result, DType::kInt64);
}

/// Positions of the Trues of a flat mask, in order.
Tensor positions(const Tensor& flat, std::string_view reason) {
  const int64_t n = flat.numel();
  if (flat.device() == DeviceType::kCPU) return reshape(trues_on_cpu(flat, {n}, reason), {-1});
  const int64_t count = n == 0 ? 0 : read_size(sum(flat), reason);
  // The others all go to one place behind.
  const Tensor found = index_copy(zeros({count + 1}, DType::kInt64), 0, numbers_of(flat, count), arange(n));
  return slice(found, 0, 0, count);
}

void check_mask(std::string_view op, const Tensor& mask) {
  SMOLDER_CHECK(mask.dtype() == DType::kBool, RuntimeError, op, ": expected BoolTensor for mask, got ",
                name(mask.dtype()));
}

}  // namespace

int64_t read_size(const Tensor& x, std::string_view reason) {
  const BufferRef buffer = x.to(DType::kInt64).materialize(reason);
  return *static_cast<const int64_t*>(buffer->data());
}

Tensor index_at(const Tensor& x, int64_t dim, TensorList indices) {
  const Place p = place_of(x, dim, indices);
  return reshape(index_select(reshape(x, p.together), p.axis, p.rows), with_middle(p, p.shape));
}

Tensor index_put_at(const Tensor& x, int64_t dim, const Tensor& values, bool accumulate, TensorList indices) {
  const Place p = place_of(x, dim, indices);
  SMOLDER_CHECK(values.dtype() == x.dtype(), RuntimeError,
                "Index put requires the source and destination dtypes match, got ", name(x.dtype()),
                " for the destination and ", name(values.dtype()), " for the source.");
  const Dims shape = with_middle(p, p.shape);
  Tensor rows;
  try {
    rows = reshape(expand(values, shape), with_middle(p, {numel(p.shape)}));
  } catch (const RuntimeError&) {
    raise<RuntimeError>("shape mismatch: value tensor of shape ", values.shape(),
                        " cannot be broadcast to indexing result of shape ", shape);
  }
  const Tensor whole = reshape(x, p.together);
  const Tensor out = accumulate ? index_add(whole, p.axis, p.rows, rows) : index_copy(whole, p.axis, p.rows, rows);
  return reshape(out, x.shape());
}

Tensor take_along_dim(const Tensor& x, const Tensor& indices, int64_t dim) {
  SMOLDER_CHECK(x.dim() == indices.dim(), RuntimeError,
                "take_along_dim(): input and indices should have the same number of dimensions, but got ", x.dim(),
                " dimensions for input, and ", indices.dim(), " dimensions for indices");
  SMOLDER_CHECK(indices.dtype() == DType::kInt64, RuntimeError,
                "take_along_dim(): dtype of indices should be Long but got ", name(indices.dtype()));
  const int axis = ir::check_axis("take_along_dim", dim, x.dim());
  Dims without = x.shape(), index_without = indices.shape();
  if (x.dim() > 0) without[axis] = index_without[axis] = 1;
  Dims shape = broadcast_shapes(without, index_without, "take_along_dim"), index_shape = shape;
  if (x.dim() > 0) {
    shape[axis] = x.size(axis);
    index_shape[axis] = indices.size(axis);
  }
  return gather(expand(x, shape), axis, expand(indices, index_shape));
}

namespace {

/// The number that changes nothing when reduced with.
Scalar identity_of(std::string_view reduce, DType t) {
  if (reduce == "prod") return 1;
  if (reduce == "sum" || reduce == "mean") return 0;
  const bool lowest = reduce == "amax";
  if (is_floating(t)) {
    const double top = std::numeric_limits<double>::infinity();
    return lowest ? -top : top;
  }
  return lowest ? lowest_integer(t) : highest_integer(t);
}

}  // namespace

Tensor scatter_reduce(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src, std::string_view reduce,
                      bool include_self) {
  SMOLDER_CHECK(x.dtype() == src.dtype(), RuntimeError, "scatter(): Expected self.dtype to be equal to src.dtype, got ",
                name(x.dtype()), " and ", name(src.dtype()));
  const auto filled = [&](const Tensor& t, Scalar v) { return scatter(t, dim, index, v); };
  const Tensor start = include_self ? x : filled(x, identity_of(reduce, x.dtype()));
  if (reduce == "sum") return scatter_add(start, dim, index, src);
  if (reduce != "mean") return scatter_fold(start, dim, index, src, reduce);
  const DType counting = is_complex(x.dtype()) ? part_type(x.dtype()) : x.dtype();
  const Tensor ones_there = ones(src.shape(), counting);
  const Tensor self_counts = include_self ? ones(x.shape(), counting) : filled(ones(x.shape(), counting), 0);
  const Tensor counts = clamp_min(scatter_add(self_counts, dim, index, ones_there), 1);
  const Tensor total = scatter_add(start, dim, index, src);
  return is_differentiable(x.dtype()) ? total / counts : floor_divide(total, counts);
}

// -- masks

Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source) {
  check_mask("masked_scatter", mask);
  SMOLDER_CHECK(x.dtype() == source.dtype(), RuntimeError,
                "masked_scatter: expected self and source to have same dtypes ", "but got ", name(x.dtype()), " and ",
                name(source.dtype()));
  const Dims shape = broadcast_shapes(x.shape(), mask.shape(), "masked_scatter");
  const Tensor self = expand(x, shape), where_ = expand(mask, shape);
  if (self.numel() == 0) return clone(self);
  if (source.numel() == 0) {  // right only where nothing is asked of it
    SMOLDER_CHECK(read_size(sum(where_), "masked_scatter") == 0, RuntimeError,
                  "masked_scatter: expected source to have as many elements as mask has Trues, got none");
    return clone(self);
  }
  return where(where_, masked_rows(reshape(source, {-1}), where_, 0, false), self);
}

Tensor masked_put(const Tensor& x, const Tensor& mask, int64_t dim, const Tensor& values) {
  check_mask("masked_put", mask);
  const int axis = static_cast<int>(dim), covered = mask.dim(), rest = x.dim() - axis - covered;
  SMOLDER_CHECK(rest >= 0, IndexError, "too many indices for tensor of dimension ", x.dim());
  Dims lead, wide = x.shape();
  for (int i = 0; i < covered; ++i) {
    SMOLDER_CHECK(x.shape()[axis + i] == mask.shape()[i], IndexError, "The shape of the mask ", mask.shape(),
                  " at index ", i, " does not match the shape of the indexed tensor ", x.shape(), " at index ",
                  axis + i);
  }
  // As the result of reading has it: the mask's dimensions are one, of as many elements as it has Trues.
  for (int i = 0; i < covered; ++i) wide.erase(axis);
  Tensor v = values;
  while (v.dim() > wide.size() + 1 && v.size(0) == 1) v = select(v, 0, 0);
  const int at = v.dim() - rest - 1;
  Dims beside;
  for (int i = 0; i < axis; ++i) beside.push_back(1);
  for (int64_t n : mask.shape()) beside.push_back(n);
  for (int i = 0; i < rest; ++i) beside.push_back(1);
  const Tensor there = reshape(mask, beside);
  if (at < 0) return where(there, v, x);
  if (v.size(at) == 1) {
    Dims shape = v.shape();
    shape.erase(at);
    for (int i = 0; i < covered; ++i) shape.insert(at, 1);
    return where(there, reshape(v, shape), x);
  }
  if (x.numel() == 0) return clone(x);
  if (v.numel() == 0) {
    SMOLDER_CHECK(read_size(sum(mask), "x[mask] = v") == v.size(at), RuntimeError,
                  "shape mismatch: value tensor of shape ", v.shape(),
                  " cannot be broadcast to the elements of the mask");
    return clone(x);
  }
  return where(there, masked_rows(v, mask, at, true), x);
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  check_mask("masked_select", mask);
  const Dims shape = broadcast_shapes(x.shape(), mask.shape(), "masked_select");
  const Tensor at = positions(reshape(expand(mask, shape), {-1}), "masked_select");
  return index_select(reshape(expand(x, shape), {-1}), 0, at);
}

// -- shapes that depend on data

Tensor nonzero(const Tensor& x, std::string_view op) {
  const Tensor mask = x.dtype() == DType::kBool ? x : x != 0;
  if (x.device() == DeviceType::kCPU) return trues_on_cpu(mask, x.shape(), op);
  Tensor at = positions(reshape(mask, {-1}), op);
  std::vector<Tensor> columns(x.dim());
  for (int i = x.dim(); i-- > 0;) {
    const int64_t n = std::max<int64_t>(x.shape()[i], 1);
    columns[i] = remainder(at, n);
    at = floor_divide(at, n);
  }
  return columns.empty() ? zeros({at.numel(), 0}, DType::kInt64) : stack(columns, 1);
}

namespace {

/// Groups of equal neighbours: `differs` says where element i + 1 starts another.
std::tuple<Tensor, Tensor, Tensor> groups(const Tensor& differs, int64_t n, const Tensor& order) {
  const Tensor starts = cat({ones({n ? 1 : 0}, DType::kBool), differs});
  const Tensor number = cumsum(starts, 0) - 1;
  const int64_t count = n == 0 ? 0 : read_size(select(number, 0, n - 1), "unique") + 1;
  const Tensor first = index_copy(zeros({count}, DType::kInt64), 0, flip(number, {0}), flip(order, {0}));
  const Tensor inverse = index_copy(zeros({n}, DType::kInt64), 0, order, number);
  const Tensor counts = index_add(zeros({count}, DType::kInt64), 0, number, ones({n}, DType::kInt64));
  return {first, inverse, counts};
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> unique(const Tensor& x, bool sorted) {
  const Tensor flat = reshape(x, {-1});
  const int64_t n = flat.numel();
  const auto [values, order] = sorted ? sort(flat, 0) : std::tuple<Tensor, Tensor>(flat, arange(n));
  const Tensor differs = slice(values, 0, 1) != slice(values, 0, 0, std::max<int64_t>(n - 1, 0));
  const auto [first, inverse, counts] = groups(differs, n, order);
  return {index_select(flat, 0, first), reshape(inverse, x.shape()), counts};
}

std::tuple<Tensor, Tensor, Tensor> unique_rows(const Tensor& x, int64_t dim, bool sorted) {
  const int axis = ir::check_axis("unique", dim, x.dim());
  const int64_t n = x.size(axis), width = n ? x.numel() / n : 0;
  SMOLDER_CHECK(n > 0 || x.numel() == 0, RuntimeError, "unique: there are no slices to compare in shape ", x.shape());
  const Tensor rows = reshape(transpose(x, 0, axis), {n, width});
  Tensor order = arange(n);
  for (int64_t c = width; sorted && c-- > 0;) {  // the last column first: sorts are stable
    const Tensor by = std::get<1>(sort(index_select(select(rows, 1, c), 0, order), 0));
    order = index_select(order, 0, by);
  }
  const Tensor there = index_select(rows, 0, order);
  const Tensor differs = any(slice(there, 0, 1) != slice(there, 0, 0, std::max<int64_t>(n - 1, 0)), 1).to(DType::kBool);
  const auto [first, inverse, counts] = groups(differs, n, order);
  return {index_select(x, axis, first), inverse, counts};
}

Tensor bincount(const Tensor& x, const Tensor& weights, int64_t minlength) {
  SMOLDER_CHECK(!is_differentiable(x.dtype()) && x.dtype() != DType::kBool, NotImplementedError,
                "bincount: not implemented for ", name(x.dtype()));
  SMOLDER_CHECK(x.dim() == 1, RuntimeError, "bincount only supports 1-d non-negative integral inputs.");
  SMOLDER_CHECK(minlength >= 0, RuntimeError, "minlength should be >= 0");
  SMOLDER_CHECK(!weights.defined() || weights.shape() == x.shape(), RuntimeError,
                "weights should be 1-d and have the same length as input");
  const int64_t n = x.numel();
  const Tensor at = x.to(DType::kInt64);
  int64_t size = minlength;
  if (n > 0) {
    const Tensor ends = stack({amin(at), amax(at)});
    const BufferRef read = ends.materialize("bincount");
    const auto* bounds = static_cast<const int64_t*>(read->data());
    SMOLDER_CHECK(bounds[0] >= 0, RuntimeError, "bincount only supports 1-d non-negative integral inputs.");
    size = std::max(size, bounds[1] + 1);
  }
  const bool real = weights.defined();
  const DType t = !real ? DType::kInt64 : weights.dtype() == DType::kFloat32 ? DType::kFloat32 : DType::kFloat64;
  return index_add(zeros({size}, t), 0, at, real ? weights.to(t) : expand(ones({1}, t), {n}));
}

Tensor histogram(const Tensor& x, int64_t bins, Scalar min, Scalar max) {
  SMOLDER_CHECK(bins > 0, RuntimeError, "bins must be > 0");
  const double low = min.to_double(), high = max.to_double();
  SMOLDER_CHECK(low <= high && std::isfinite(low) && std::isfinite(high), RuntimeError, "range of [", low, ", ", high,
                "] is not finite, or max is below min");
  const Tensor flat = reshape(x, {-1});
  if (flat.numel() == 0) return zeros({bins}, x.dtype());
  Tensor from = full({}, min, x.dtype()), to = full({}, max, x.dtype());
  if (low == high) {
    from = checked_bound(amin(flat));
    to = checked_bound(amax(flat));
    const Tensor same = from == to;
    from = where(same, from - 1, from);
    to = where(same, to + 1, to);
  }
  const Tensor inside = logical_and(flat >= from, flat <= to);
  const Tensor at = ((flat - from) * bins / (to - from)).to(DType::kInt64);
  const Tensor safe = where(inside, clamp(at, Scalar(0), Scalar(bins - 1)), 0);
  // Counted as integers, whose sums are the same in any order.
  return index_add(zeros({bins}, DType::kInt64), 0, safe, inside.to(DType::kInt64)).to(x.dtype());
}

// -- searches

Tensor search(const Tensor& sorted, const Tensor& x, bool right, bool out_int32, const Tensor& sorter) {
  SMOLDER_CHECK(sorted.dim() >= 1, RuntimeError,
                "searchsorted(): boundaries tensor should have at least one dimension");
  const bool flat = sorted.dim() == 1;
  if (!flat) {
    Dims a = sorted.shape(), b = x.shape();
    a.pop_back();
    if (!b.empty()) b.pop_back();
    SMOLDER_CHECK(x.dim() == sorted.dim() && a == b, RuntimeError,
                  "searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries ",
                  "tensor and input value tensor must match, but we got boundaries tensor ", sorted.shape(),
                  " and input value tensor ", x.shape());
  }
  const DType t = result_type({sorted, x});
  const Tensor row = (sorter.defined() ? gather(sorted, -1, sorter) : sorted).to(t);
  const int64_t n = sorted.size(-1);
  const Tensor values = (flat ? reshape(x, {-1}) : x).to(t);
  Tensor found = zeros(values.shape(), DType::kInt64);
  int64_t step = 1;
  while (step * 2 <= n) step *= 2;
  for (; n > 0 && step > 0 && values.numel() > 0; step /= 2) {
    const Tensor end = found + step, there = gather(row, -1, clamp_max(end, n) - 1);
    // Written so that nan goes to the end, as in torch.
    const Tensor before = logical_not(right ? there > values : there >= values);
    found = where(logical_and(end <= n, before), end, found);
  }
  found = reshape(found, x.shape());
  return out_int32 ? found.to(DType::kInt32) : found;
}

Tensor is_in(const Tensor& elements, const Tensor& among, bool invert) {
  const DType t = result_type({elements, among});
  const Tensor x = reshape(elements.to(t), {-1}), set = reshape(among.to(t), {-1});
  Tensor found;
  if (set.numel() == 0) {
    found = zeros(x.shape(), DType::kBool);
  } else if (set.numel() <= 16) {  // fused comparisons beat a sort
    found = any(unsqueeze(x, 1) == set, 1).to(DType::kBool);
  } else {
    const Tensor row = std::get<0>(sort(set, 0)), at = search(row, x, false, false, {});
    found = index_select(row, 0, clamp_max(at, set.numel() - 1)) == x;
  }
  found = reshape(found, elements.shape());
  return invert ? logical_not(found) : found;
}

// -- order statistics

std::tuple<Tensor, Tensor> median(const Tensor& x, int64_t dim, bool keepdim, bool skip_nan) {
  const int axis = ir::check_axis("median", dim, x.dim());
  if (x.dim() == 0) return {clone(x), zeros({}, DType::kInt64)};
  const int64_t n = x.size(axis);
  SMOLDER_CHECK(n > 0, IndexError, "median(): Expected reduction dim ", axis, " to have non-zero size.");
  const auto [values, order] = sort(x, axis);
  Dims one = x.shape();
  one[axis] = 1;
  Tensor at = full(one, (n - 1) / 2, DType::kInt64);
  if (is_floating(x.dtype())) {
    const Tensor numbers = sum(logical_not(isnan(x)), axis, true);
    // nan comes last: either it does not count, or the first one is the median.
    at = skip_nan ? clamp_min(floor_divide(numbers - 1, 2), 0) : where(numbers < n, numbers, at);
  }
  const auto picked = [&, axis = axis](const Tensor& t) {
    const Tensor out = gather(t, axis, at);
    return keepdim ? out : squeeze(out, axis);
  };
  return {picked(values), picked(order)};
}

Tensor median_of_all(const Tensor& x, bool skip_nan) {
  const Tensor flat = reshape(x, {-1});
  if (flat.numel() == 0 && is_floating(x.dtype())) {
    return full({}, std::numeric_limits<double>::quiet_NaN(), x.dtype());
  }
  Tensor middle = std::get<0>(median(flat, 0, false, skip_nan));
  if (!grad_enabled() || !x.requires_grad()) return middle;
  // The largest of those that are equal to it is it, and its gradient goes to all of them; or the smallest, where the
  // others can't be less.
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor found = middle.detach();
  const Tensor equal = logical_or(eq(flat, found), logical_and(isnan(flat), isnan(found)));
  return where(eq(found, -infinity), amin(where(equal, flat, infinity), {}), amax(where(equal, flat, -infinity), {}));
}

Tensor quantile(std::string_view op, const Tensor& x, const Tensor& q, std::optional<int64_t> dim, bool keepdim,
                std::string_view interpolation, bool skip_nan) {
  SMOLDER_CHECK(interpolation == "linear" || interpolation == "lower" || interpolation == "higher" ||
                    interpolation == "midpoint" || interpolation == "nearest",
                RuntimeError, op,
                "() interpolation must be one of linear, lower, higher, midpoint or nearest, but got ", interpolation);
  SMOLDER_CHECK(x.numel() > 0, RuntimeError, op, "() input tensor must be non-empty");
  SMOLDER_CHECK(q.dim() <= 1, RuntimeError, op, "() q must be a scalar or 1D tensor");
  SMOLDER_CHECK(is_floating(x.dtype()), RuntimeError, op, "() input tensor must be either float or double dtype, got ",
                name(x.dtype()));
  SMOLDER_CHECK(q.dtype() == x.dtype(), RuntimeError, op, "() q tensor must be same dtype as the input tensor, got ",
                name(q.dtype()), " and ", name(x.dtype()));
  if (is_half(x.dtype())) {
    const auto wide = [](const Tensor& t) { return t.to(DType::kFloat32); };
    return quantile(op, wide(x), wide(q), dim, keepdim, interpolation, skip_nan).to(x.dtype());
  }
  const int axis = dim ? ir::check_axis(op, *dim, x.dim()) : 0;
  Dims kept = x.shape();
  Tensor rows;
  if (!dim || x.dim() == 0) {
    rows = reshape(x, {-1});
    kept = Dims::filled(keepdim ? x.dim() : 0, 1);
  } else {
    rows = move_axes(x, {axis}, {-1});
    if (keepdim) {
      kept[axis] = 1;
    } else {
      kept.erase(axis);
    }
  }
  const Tensor values = std::get<0>(sort(rows, -1)), bad = isnan(rows);
  const int64_t n = rows.size(-1);
  Tensor last = full({1}, n - 1, x.dtype());
  if (skip_nan) last = clamp_min((n - 1 - sum(bad, -1, true)), 0).to(x.dtype());
  Tensor rank = reshape(q, {-1}) * last;  // [..., q]
  if (interpolation == "lower") rank = floor(rank);
  if (interpolation == "higher") rank = ceil(rank);
  if (interpolation == "nearest") rank = round(rank);
  Dims shape = rows.shape();
  shape.back() = q.numel();
  rank = expand(rank, shape);
  if (!skip_nan) rank = masked_fill(rank, any(bad, -1, true).to(DType::kBool), static_cast<double>(n - 1));
  const Tensor below = floor(rank);
  const auto at = [&](const Tensor& r) {
    return gather(values, -1, clamp(r, Scalar(0), Scalar(n - 1)).to(DType::kInt64));
  };
  Tensor out = at(below);
  if (interpolation == "linear" || interpolation == "midpoint") {
    const Tensor share =
        interpolation == "linear" ? rank - below : masked_fill(zeros(shape, x.dtype()), rank != below, 0.5);
    out = lerp(out, at(ceil(rank)), share);
  }
  out = move_axes(out, {-1}, {0});  // [q, ...]
  if (q.dim() == 0) return reshape(out, kept);
  kept.insert(0, q.numel());
  return reshape(out, kept);
}

}  // namespace smolder::lazy
