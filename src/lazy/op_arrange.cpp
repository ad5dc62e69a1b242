// The functions behind the rows of arrange.toml, statistics.toml and products.toml.
#include <algorithm>
#include <limits>
#include <vector>

#include "smolder/core/size.h"
#include "smolder/ir/infer.h"
#include "smolder/lazy/op_support.h"
#include "smolder/lazy/ops.h"
#include "smolder/lazy/strides.h"
#include "smolder/lazy/taken.h"

namespace smolder::lazy {

int64_t whole_sections(std::string_view op, const Tensor& x, int64_t sections, int axis) {
  SMOLDER_CHECK(x.dim() > axis, RuntimeError, op, ": requires a tensor with at least ", axis + 1,
                " dimension, but got a tensor with ", x.dim(), " dimensions!");
  SMOLDER_CHECK(sections > 0 && x.size(axis) % sections == 0, RuntimeError, op, ": attempted to split along dimension ",
                axis, ", but the size of the dimension ", x.size(axis), " is not divisible by the split_size ",
                sections, "!");
  return sections;
}

Tensor move_axes(const Tensor& x, const Dims& source, const Dims& destination) {
  SMOLDER_CHECK(source.size() == destination.size(), RuntimeError,
                "movedim: Invalid source or destination dims: source (", source,
                " dims) should contain the same number ", "of dims as destination (", destination, " dims)");
  const int rank = x.dim();
  if (rank == 0) {
    ir::check_axes("movedim", source, 1);
    ir::check_axes("movedim", destination, 1);
    return reshape(x, x.shape());
  }
  const Dims from = ir::check_axes("movedim", source, rank), to = ir::check_axes("movedim", destination, rank);
  Dims order = Dims::filled(rank, -1), rest;
  for (int i = 0; i < from.size(); ++i) order[static_cast<int>(to[i])] = from[i];
  for (int i = 0; i < rank; ++i) {
    if (std::find(from.begin(), from.end(), i) == from.end()) rest.push_back(i);
  }
  int next = 0;
  for (int64_t& axis : order) {
    if (axis < 0) axis = rest[next++];
  }
  return permute(x, order);
}

Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims) {
  SMOLDER_CHECK(!shifts.empty(), RuntimeError, "`shifts` required");
  if (dims.empty() && shifts.size() == 1) return reshape(roll(reshape(x, {-1}), shifts, {0}), x.shape());
  SMOLDER_CHECK(dims.size() == shifts.size(), RuntimeError, "shifts and dimensions must align. shifts: ", shifts.size(),
                ", dims:", dims.size());
  SMOLDER_CHECK(x.dim() > 0 || dims.empty(), IndexError, "Dimension specified as ", dims[0],
                " but tensor has no dimensions");
  Tensor out = x;
  for (int i = 0; i < dims.size(); ++i) {
    const int axis = ir::check_axis("roll", dims[i], x.dim());
    const int64_t n = x.dim() ? x.size(axis) : 0;
    if (n == 0) continue;
    const int64_t by = (shifts[i] % n + n) % n;
    if (by) out = cat({slice(out, axis, n - by), slice(out, axis, 0, n - by)}, axis);
  }
  return out.impl() == x.impl() ? clone(x) : out;
}

Tensor repeat(const Tensor& x, const Dims& repeats) {
  Tensor out = x;
  while (out.dim() < repeats.size()) out = unsqueeze(out, 0);
  for (int i = 0; i < repeats.size(); ++i) {
    SMOLDER_CHECK(repeats[i] >= 0, RuntimeError, "Trying to create tensor with negative dimension ", repeats[i]);
    if (repeats[i] == 1) continue;
    Dims shape = out.shape();
    shape.insert(i, repeats[i]);
    out = expand(unsqueeze(out, i), shape);
    shape.erase(i);
    shape[i] *= repeats[i];
    out = reshape(out, shape);
  }
  return clone(out);
}

Tensor repeat_each(const Tensor& x, const Tensor& repeats, std::optional<int64_t> dim,
                   std::optional<int64_t> output_size) {
  if (!dim || x.dim() == 0) return repeat_each(reshape(x, {-1}), repeats, dim.value_or(0), output_size);
  ir::check_index("repeat_interleave", "repeats", repeats.meta());
  SMOLDER_CHECK(repeats.dim() <= 1, RuntimeError, "repeat_interleave only accept 1D vector as repeat");
  const int axis = ir::check_axis("repeat_interleave", *dim, x.dim());
  const int64_t n = x.dim() ? x.size(axis) : 1;
  SMOLDER_CHECK(repeats.numel() == 1 || repeats.numel() == n, RuntimeError,
                "repeats must have the same size as input along dim, but got repeats.size(0) = ", repeats.numel(),
                " and input.size(", axis, ") = ", n);
  const Tensor each = expand(reshape(repeats.to(DType::kInt64), {-1}), {n});
  const Tensor ends = cumsum(each, 0);
  const int64_t total = output_size ? *output_size
                        : n == 0    ? 0
                                    : read_size(select(ends, 0, n - 1), "repeat_interleave");
  // Element i of the result is of the first one whose repeats end after i: counted by marking the ends.
  const Tensor marks = index_add(zeros({(Size(total) + 1).value()}, DType::kInt64), 0, ends, ones({n}, DType::kInt64));
  return index_select(x, axis, slice(cumsum(marks, 0), 0, 0, total));
}

void check_pieces(std::string_view op, int64_t pieces, int64_t n) {
  constexpr int64_t kMost = int64_t{1} << 22;
  SMOLDER_CHECK(pieces <= std::max(n, kMost), RuntimeError, op, ": ", pieces, " pieces of a dimension of ", n,
                " elements are more tensors than fit into memory");
}

Tensor windows(const Tensor& x, int64_t dimension, int64_t size, int64_t step) {
  const int axis = ir::check_axis("unfold", dimension, x.dim());
  const int64_t n = x.dim() ? x.size(axis) : 1;
  SMOLDER_CHECK(size >= 0 && size <= n, RuntimeError, "maximum size for tensor at dimension ", axis, " is ", n,
                " but size is ", size);
  SMOLDER_CHECK(step > 0, RuntimeError, "step is ", step, " but must be > 0");
  if (x.dim() == 0) return expand(reshape(x, {1}), {size});
  return taken_view(x, windows_taken(axis, size, step));
}

namespace {

/// The two dimensions of a diagonal, as axes that differ.
std::pair<int, int> diagonal_axes(int64_t dim1, int64_t dim2, int rank) {
  const int a = ir::check_axis("diagonal", dim1, rank), c = ir::check_axis("diagonal", dim2, rank);
  SMOLDER_CHECK(a != c, RuntimeError, "diagonal dimensions cannot be identical ", dim1, ", ", dim2);
  return {a, c};
}

}  // namespace

Tensor diagonal(const Tensor& x, int64_t offset, int64_t dim1, int64_t dim2) {
  SMOLDER_CHECK(x.dim() >= 2, IndexError, "diagonal: Dimension out of range (expected to be in range of [",
                -std::max(x.dim(), 1), ", ", std::max(x.dim(), 1) - 1, "], but got ", x.dim() == 0 ? dim1 : dim2,
                "): a diagonal needs two dimensions, got shape ", x.shape());
  auto [a, c] = diagonal_axes(dim1, dim2, x.dim());
  Tensor last = move_axes(x, {a, c}, {-2, -1});
  offset = std::max(offset, -std::numeric_limits<int64_t>::max());  // it may be turned round
  if (!can_view(last, flattened(last.shape()))) {                   // a transposed matrix is a view the other way round
    const Tensor other = transpose(last, -2, -1);
    if (can_view(other, flattened(other.shape()))) {
      last = other;
      offset = -offset;
    }
  }
  const int64_t rows = last.size(-2), columns = last.size(-1);
  const int64_t length = offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns);
  if (length <= 0) return slice(columns > 0 ? select(last, -1, 0) : reshape(last, flattened(last.shape())), -1, 0, 0);
  if (!can_view(last, flattened(last.shape()))) {
    const int64_t row = std::max<int64_t>(-offset, 0), column = std::max<int64_t>(offset, 0);
    const Tensor square = slice(slice(last, -2, row, row + length), -1, column, column + length);
    return taken_view(square, diagonal_taken());
  }
  const Tensor flat = reshape(last, flattened(last.shape()));
  const int64_t start = offset >= 0 ? offset : -offset * columns;
  return slice(flat, -1, start, start + (length - 1) * (columns + 1) + 1, columns + 1);
}

Tensor diag_embed(const Tensor& x, int64_t offset, int64_t dim1, int64_t dim2) {
  SMOLDER_CHECK(x.dim() >= 1, IndexError, "diag_embed: Dimension out of range: expected a dimension, got none");
  const auto [a, c] = diagonal_axes(dim1, dim2, x.dim() + 1);
  const int64_t n = (Size(x.size(-1)) + std::max(offset, (Size(0) - offset).value())).value();
  Dims low = Dims::filled(x.dim(), 0), high = low;
  low.back() = std::max<int64_t>(-offset, 0);
  high.back() = std::max<int64_t>(offset, 0);
  const Tensor rows = constant_pad(x, low, high, 0.0), at = arange(n);
  Dims shape = rows.shape();
  shape.push_back(n);
  const Tensor elsewhere = at - unsqueeze(at, 1) != offset;
  return move_axes(masked_fill(expand(unsqueeze(rows, -1), shape), elsewhere, 0), {-2, -1}, {a, c});
}

Tensor fill_diagonal(const Tensor& x, Scalar value, bool wrap) {
  SMOLDER_CHECK(x.dim() >= 2, RuntimeError, "dimensions must larger than 1");
  for (int i = 1; x.dim() > 2 && i < x.dim(); ++i) {
    SMOLDER_CHECK(x.size(i) == x.size(0), RuntimeError, "all dimensions of input must be of equal length");
  }
  const int64_t rows = x.size(0), columns = x.size(1);
  Tensor on;
  for (int i = 1; i < x.dim(); ++i) {
    Dims beside = Dims::filled(x.dim(), 1), along = beside;
    beside[0] = rows;
    along[i] = x.size(i);
    Tensor at = reshape(arange(rows), beside);
    if (wrap && x.dim() == 2 && rows > columns) at = remainder(at, columns + 1);
    const Tensor same = at == reshape(arange(x.size(i)), along);
    on = on.defined() ? logical_and(on, same) : same;
  }
  return masked_fill(x, on, value);
}

Tensor differences(const Tensor& x, int64_t n, int64_t dim, const Tensor& prepend, const Tensor& append) {
  SMOLDER_CHECK(x.dim() >= 1, RuntimeError, "diff expects input to be at least one-dimensional");
  SMOLDER_CHECK(n >= 0, RuntimeError, "order must be non-negative but got ", n);
  std::vector<Tensor> parts;
  for (const Tensor& part : {prepend, x, append}) {
    if (part.defined()) parts.push_back(part);
  }
  Tensor out = n > 0 && parts.size() > 1 ? cat(parts, dim) : x;
  for (int64_t i = 0; i < n && out.size(dim) > 0; ++i) {
    const Tensor after = slice(out, dim, 1), before = slice(out, dim, 0, std::max<int64_t>(out.size(dim) - 1, 0));
    out = out.dtype() == DType::kBool ? logical_xor(after, before) : after - before;
  }
  return out.impl() == x.impl() ? clone(x) : out;
}

Tensor trapezoid(const Tensor& y, const Tensor& x, std::optional<Scalar> dx, int64_t dim) {
  SMOLDER_CHECK(!x.defined() || !dx, TypeError, "trapezoid() takes x or dx, not both");
  SMOLDER_CHECK(y.dtype() != DType::kBool && (!x.defined() || x.dtype() != DType::kBool), RuntimeError,
                "trapezoid: received a bool input for `", y.dtype() == DType::kBool ? "y" : "x",
                "`, but bool is not supported");
  if (!x.defined() && category(y.dtype()) == Category::kInt && y.dim() > 0 && y.size(dim) > 0) {
    // The sum first, which is of int64: sums of two small integers would wrap.
    const Tensor ends = select(y, dim, 0) * 0.5 + select(y, dim, -1) * 0.5;
    return (sum(y, dim) - ends) * (dx ? dx->to_double() : 1.0);
  }
  const Tensor pairs = slice(y, dim, 1) + slice(y, dim, 0, std::max<int64_t>(y.size(dim) - 1, 0));
  if (!x.defined()) return sum(pairs, dim) * (dx ? dx->to_double() / 2 : 0.5);
  Tensor apart = differences(x, 1, x.dim() == 1 ? 0 : dim, {}, {});
  if (x.dim() == 1) {
    Dims shape = Dims::filled(y.dim(), 1);
    shape[ir::check_axis("trapezoid", dim, y.dim())] = apart.numel();
    apart = reshape(apart, shape);
  }
  return sum(pairs * apart, dim) / 2;
}

// -- products

Tensor tensordot(const Tensor& a, const Tensor& b, const Dims& dims_a, const Dims& dims_b) {
  // Where autocast would make them alike, too, as in torch.
  SMOLDER_CHECK(a.dtype() == b.dtype(), RuntimeError, "tensordot: both inputs should have same dtype, got ",
                name(a.dtype()), " and ", name(b.dtype()));
  SMOLDER_CHECK(dims_a.size() == dims_b.size(), RuntimeError, "both dimension lists should have same length");
  const Dims sum_a = ir::check_axes("tensordot", dims_a, a.dim()), sum_b = ir::check_axes("tensordot", dims_b, b.dim());
  Dims order_a, order_b = sum_b, shape;
  int64_t inner = 1, rows = 1, columns = 1;
  for (int i = 0; i < a.dim(); ++i) {
    if (std::find(sum_a.begin(), sum_a.end(), i) != sum_a.end()) continue;
    order_a.push_back(i);
    shape.push_back(a.size(i));
    rows = (Size(rows) * a.size(i)).value();
  }
  for (int i = 0; i < sum_a.size(); ++i) {
    const int64_t n = a.size(sum_a[i]);
    SMOLDER_CHECK(n == b.size(sum_b[i]), RuntimeError, "contracted dimensions need to match, but first has size ", n,
                  " in dim ", sum_a[i], " and second has size ", b.size(sum_b[i]), " in dim ", sum_b[i]);
    order_a.push_back(sum_a[i]);
    inner *= n;
  }
  for (int i = 0; i < b.dim(); ++i) {
    if (std::find(sum_b.begin(), sum_b.end(), i) != sum_b.end()) continue;
    order_b.push_back(i);
    shape.push_back(b.size(i));
    columns = (Size(columns) * b.size(i)).value();
  }
  // torch takes the product of vectors here, too, which autocast leaves as they are.
  if (shape.empty()) return dot(reshape(permute(a, order_a), {inner}), reshape(permute(b, order_b), {inner}));
  return reshape(matmul(reshape(permute(a, order_a), {rows, inner}), reshape(permute(b, order_b), {inner, columns})),
                 shape);
}

Tensor kron(const Tensor& a, const Tensor& b) {
  Tensor x = a, y = b;
  while (x.dim() < y.dim()) x = unsqueeze(x, 0);
  while (y.dim() < x.dim()) y = unsqueeze(y, 0);
  Dims shape = x.shape();
  for (int i = 0; i < shape.size(); ++i) shape[i] = (Size(shape[i]) * y.shape()[i]).value();
  for (int i = x.dim(); i > 0; --i) x = unsqueeze(x, i);  // a0 1 a1 1 ...
  for (int i = y.dim(); i-- > 0;) y = unsqueeze(y, i);    // 1 b0 1 b1 ...
  return reshape(x * y, shape);
}

Tensor cross(const Tensor& a, const Tensor& b, std::optional<int64_t> dim) {
  SMOLDER_CHECK(!dim || a.dim() == b.dim(), RuntimeError,
                "linalg.cross: inputs must have the same number of dimensions.");
  const Dims shape = broadcast_shapes(a.shape(), b.shape(), "cross");
  int axis = -1;
  if (dim) {
    axis = ir::check_axis("cross", *dim, shape.size());
    SMOLDER_CHECK(shape.size() > 0 && a.shape()[axis] == 3 && b.shape()[axis] == 3, RuntimeError, "inputs dimension ",
                  *dim, " must have length 3. Got ", a.shape(), " and ", b.shape());
  } else {
    axis = static_cast<int>(std::find(shape.begin(), shape.end(), 3) - shape.begin());
    SMOLDER_CHECK(axis < shape.size(), RuntimeError, "no dimension of size 3 in input");
  }
  const Tensor x = expand(a, shape), y = expand(b, shape);
  const auto turned = [axis](const Tensor& t, int64_t by) { return lazy::roll(t, Dims{by}, Dims{axis}); };
  return turned(x, -1) * turned(y, -2) - turned(x, -2) * turned(y, -1);
}

}  // namespace smolder::lazy
