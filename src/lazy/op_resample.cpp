// The functions behind the rows of resampling.toml: places along each axis, and how much the element at each counts.
#include <algorithm>
#include <array>
#include <cmath>

#include "smolder/core/size.h"
#include "smolder/ir/decompose.h"
#include "smolder/ir/infer.h"
#include "smolder/lazy/op_support.h"
#include "smolder/lazy/ops.h"

namespace smolder::lazy {
namespace {

Dims two(std::string_view what, const Dims& given) {
  SMOLDER_CHECK(given.size() == 1 || given.size() == 2, RuntimeError, "It is expected ", what,
                " equals to 2, but got size ", given.size());
  return given.size() == 2 ? given : Dims::filled(2, given[0]);
}

/// Windows over planes: two numbers each, and how many there are along each axis of `size`.
struct Columns {
  Dims kernel, dilation, padding, stride, count;

  Columns(const Dims& size, const WindowArguments& given)
      : kernel(two("kernel_size", given.kernel)),
        dilation(two("dilation", given.dilation)),
        padding(two("padding", given.padding)),
        stride(two("stride", given.stride)) {
    const auto least = [](const Dims& d) { return std::min(d[0], d[1]); };
    const auto check = [&](const char* what, const char* of, const Dims& d) {
      SMOLDER_CHECK(least(d) > 0, RuntimeError, what, " should be greater than zero, but got ", of, "_height: ", d[0],
                    " ", of, "_width: ", d[1]);
    };
    check("kernel size", "kernel", kernel);
    check("dilation", "dilation", dilation);
    check("stride", "stride", stride);
    SMOLDER_CHECK(least(padding) >= 0, RuntimeError, "padding should be non-negative, but got pad_height: ", padding[0],
                  " pad_width: ", padding[1]);
    for (int i = 0; i < 2; ++i) {
      count.push_back(ir::num_windows(size[i], kernel[i], stride[i], padding[i], dilation[i]));
    }
    SMOLDER_CHECK(least(count) > 0, RuntimeError, "Given input with spatial size ", size, ", kernel_size=", kernel,
                  ", dilation=", dilation, ", padding=", padding, ", stride=", stride,
                  ", calculated shape of the array of sliding blocks as ", count,
                  ", but its components must be at least one.");
  }

  /// Where each tap of each window looks along an axis, of padded planes: [kernel, count].
  Tensor places(int i) const {
    return reshape(arange(kernel[i]) * dilation[i], {kernel[i], 1}) + arange(count[i]) * stride[i];
  }
};

}  // namespace

Tensor to_columns(const Tensor& x, const WindowArguments& given) {
  SMOLDER_CHECK(x.dim() == 3 || x.dim() == 4, RuntimeError,
                "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
                "input, but got: ",
                x.shape());
  const bool batched = x.dim() == 4;
  const Tensor images = batched ? x : unsqueeze(x, 0);
  const Columns c({x.size(-2), x.size(-1)}, given);
  const Dims around{0, 0, c.padding[0], c.padding[1]};
  const Tensor padded = c.padding[0] || c.padding[1] ? constant_pad(images, around, around) : images;
  const Tensor seen = at_places(at_places(padded, 3, c.places(1)), 2, c.places(0));  // [N, C, kh, h, kw, w]
  const Dims shape{images.size(0), images.size(1) * c.kernel[0] * c.kernel[1], c.count[0] * c.count[1]};
  const Tensor columns = reshape(permute(seen, {0, 1, 2, 4, 3, 5}), shape);
  return batched ? columns : squeeze(columns, 0);
}

Tensor from_columns(const Tensor& x, const Dims& output_size, const WindowArguments& given) {
  ir::check_dtype("col2im", "input", x.meta(), "float");
  SMOLDER_CHECK(
      x.dim() == 2 || x.dim() == 3, RuntimeError,
      "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for "
      "input, but got: ",
      x.shape());
  const Dims size = two("output_size", output_size);
  const Columns c(size, given);
  const bool batched = x.dim() == 3;
  const Tensor columns = batched ? x : unsqueeze(x, 0);
  const int64_t taps = (Size(c.kernel[0]) * c.kernel[1]).value(), n = columns.size(0),
                channels = columns.size(1) / taps;
  SMOLDER_CHECK(
      columns.size(1) % taps == 0, RuntimeError,
      "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)=",
      columns.size(1), " and kernel_size=", c.kernel, ".");
  SMOLDER_CHECK(columns.size(2) == (Size(c.count[0]) * c.count[1]).value(), RuntimeError, "Given output_size=", size,
                ", kernel_size=", c.kernel, ", dilation=", c.dilation, ", padding=", c.padding, ", stride=", c.stride,
                ", expected size of input's dimension 2 to match the calculated number of sliding blocks ", c.count[0],
                " * ", c.count[1], " = ", c.count[0] * c.count[1], ", but got input.size(2)=", columns.size(2), ".");
  const int64_t h = (Size(size[0]) + Size(2) * c.padding[0]).value(),
                w = (Size(size[1]) + Size(2) * c.padding[1]).value();
  const Tensor seen =
      permute(reshape(columns, {n, channels, c.kernel[0], c.kernel[1], c.count[0], c.count[1]}), {0, 1, 2, 4, 3, 5});
  const Tensor rows = index_add(zeros({n, channels, c.kernel[0] * c.count[0], w}, x.dtype()), 3,
                                reshape(c.places(1), {-1}), reshape(seen, {n, channels, c.kernel[0] * c.count[0], -1}));
  const Tensor y = index_add(zeros({n, channels, h, w}, x.dtype()), 2, reshape(c.places(0), {-1}), rows);
  const Tensor inner =
      slice(slice(y, 2, c.padding[0], c.padding[0] + size[0]), 3, c.padding[1], c.padding[1] + size[1]);
  return batched ? inner : squeeze(inner, 0);
}

// -- other sizes

namespace {

/// An axis of n elements that becomes one of `size`.
struct Resize {
  int64_t n, size;
  double scale;  ///< elements from one that is read to the next
  DType dtype;   ///< of the arithmetic

  Tensor numbers() const { return arange(size).to(dtype); }
};

/// Keys's cubic, of distances up to 1 and up to 2.
Tensor cubic_near(const Tensor& d, double a) { return ((a + 2) * d - (a + 3)) * d * d + 1.0; }
Tensor cubic_far(const Tensor& d, double a) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; }

/// A filter as wide as the elements it stands for, as Pillow's: `reach` of them to each side at a scale of one.
Tensor smooth(const Tensor& x, int axis, const Resize& r, int reach) {
  const double wide = std::max(r.scale, 1.0), support = reach * wide;
  const Tensor center = (r.numbers() + 0.5) * r.scale;
  const Tensor first = clamp_min((center - support + 0.5).to(DType::kInt64), 0);
  const Tensor end = clamp_max((center + support + 0.5).to(DType::kInt64), r.n);
  const int64_t taps = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  const Tensor places = reshape(first, {r.size, 1}) + arange(taps);
  const Tensor d = abs((places.to(r.dtype) - reshape(center, {r.size, 1}) + 0.5) * (1.0 / wide));
  const Tensor kernel = reach == 1 ? clamp_min(1.0 - d, 0.0)
                                   : where(d < 1.0, cubic_near(d, -0.5), where(d < 2.0, cubic_far(d, -0.5), 0.0));
  const Tensor weights = where(places < reshape(end, {r.size, 1}), kernel, 0.0);
  Dims shape = Dims::filled(x.dim() - axis + 1, 1);
  shape[0] = r.size;
  shape[1] = taps;
  const Tensor counts = reshape(weights / sum(weights, 1, true), shape);
  return sum(at_places(x, axis, clamp_max(places, r.n - 1)) * counts, axis + 1);
}

}  // namespace

Tensor interpolate(const Tensor& x, const Dims& given, std::string_view mode, bool align_corners, bool antialias,
                   const std::array<std::optional<double>, 3>& scales) {
  const int dims = x.dim() - 2;
  const bool is_nearest = mode == "nearest" || mode == "nearest-exact", is_cubic = mode == "bicubic";
  const bool is_linear = mode == "linear" || mode == "bilinear" || mode == "trilinear";
  SMOLDER_CHECK(is_nearest || is_cubic || is_linear || mode == "area", NotImplementedError, "interpolate: mode '", mode,
                "' is not supported");
  SMOLDER_CHECK(dims >= 1 && dims <= 3, RuntimeError, "interpolate: expected an input of 3 to 5 dimensions, got ",
                x.shape());
  SMOLDER_CHECK(is_floating(x.dtype()) || (is_nearest && x.dtype() == DType::kUInt8), NotImplementedError,
                "interpolate: mode '", mode, "' is not implemented for ", name(x.dtype()));
  SMOLDER_CHECK(given.size() == 1 || given.size() == dims, RuntimeError, "interpolate: expected ", dims, " sizes, got ",
                given);
  const Dims size = given.size() == dims ? given : Dims::filled(dims, given[0]);
  for (int i = 0; i < dims; ++i) {
    SMOLDER_CHECK(size[i] > 0 && x.size(2 + i) > 0, RuntimeError,
                  "Input and output sizes should be greater than 0, but got input ", x.shape(), " and output sizes ",
                  size);
  }
  Dims whole = x.shape();
  for (int i = 0; i < dims; ++i) whole[2 + i] = size[i];
  storage_bytes(whole, x.dtype());
  if (mode == "area") return adaptive_avg_pool("interpolate", dims, x, size);
  const DType dtype = is_floating(x.dtype()) ? compute_type(x.dtype()) : DType::kFloat32;
  Tensor y = x.to(dtype);
  for (int i = 0; i < dims; ++i) {
    const int64_t n = x.size(2 + i), m = size[i];
    const std::optional<double> factor = scales[3 - dims + i];
    const double ratio = static_cast<double>(n) / static_cast<double>(m);
    const double scale = align_corners ? (m > 1 ? static_cast<double>(n - 1) / static_cast<double>(m - 1) : 0.0)
                         : factor && *factor > 0 ? 1.0 / *factor
                                                 : ratio;
    if (n == m && scale == 1.0) continue;
    if (antialias && !is_nearest) {
      y = smooth(y, 2 + i, {n, m, scale, dtype}, is_cubic ? 2 : 1);
      continue;
    }
    constexpr int64_t kMost = int64_t{1} << 28;  // each element is looked at, to know where a gradient is
    SMOLDER_CHECK(n <= kMost && m <= kMost, NotImplementedError, "interpolate: sizes beyond ", kMost,
                  " elements along a dimension are not supported, got input ", x.shape(), " and output sizes ", size);
    const std::string_view how = mode == "nearest" ? "nearest" : is_nearest ? "exact" : is_cubic ? "cubic" : "linear";
    const auto band = ir::band_of(n, m, scale, how, align_corners, dtype);
    y = resample(y, scale, 2 + i, m, how, align_corners, band.taps, band.lead);
  }
  const Tensor out = y.to(x.dtype());
  return out.impl() == x.impl() ? clone(x) : out;  // where the size stays, too, the result is new
}

// -- points of a grid

namespace {

/// A coordinate from -1 to 1 as a number of elements.
Tensor unnormalize(const Tensor& at, int64_t n, bool align_corners) {
  return align_corners ? (at + 1.0) * (0.5 * static_cast<double>(n - 1))
                       : ((at + 1.0) * static_cast<double>(n) - 1.0) * 0.5;
}

/// Brought back by mirrors at low / 2 and high / 2.
Tensor reflect(const Tensor& at, int64_t low, int64_t high) {
  if (low == high) return at * 0.0;
  const double from = static_cast<double>(low) / 2, span = static_cast<double>(high - low) / 2;
  const Tensor away = abs(at - from), turns = floor(away / span), rest = away - turns * span;
  return where(remainder(turns, 2.0) == 0.0, rest + from, span - rest + from);
}

Tensor brought_inside(const Tensor& at, int64_t n, std::string_view padding, bool align_corners) {
  if (padding == "zeros") return at;
  const Tensor back = padding == "border" ? at
                      : align_corners     ? reflect(at, 0, 2 * (n - 1))
                                          : reflect(at, -1, 2 * n - 1);
  return clamp(back, 0.0, static_cast<double>(n - 1));
}

/// Elements of one axis that a point reads, and what each counts.
struct Reads {
  std::vector<Tensor> at, weight;  ///< places as floats, which may be outside; no weight means 1
};

Reads reads_of(const Tensor& coordinate, int64_t n, std::string_view mode, std::string_view padding,
               bool align_corners) {
  const Tensor raw = unnormalize(coordinate, n, align_corners);
  if (mode == "bicubic") {
    constexpr double kA = -0.75;
    const Tensor low = floor(raw), t = raw - low;
    Reads r;
    for (int i = -1; i < 3; ++i) r.at.push_back(brought_inside(low + i, n, padding, align_corners));
    r.weight = {cubic_far(t + 1.0, kA), cubic_near(t, kA), cubic_near(1.0 - t, kA), cubic_far(2.0 - t, kA)};
    return r;
  }
  const Tensor at = brought_inside(raw, n, padding, align_corners);
  if (mode == "nearest") {
    const Tensor whole = round(at);
    // Where a gradient of the grid is asked for, it is zero, not none.
    return {{whole}, {at.requires_grad() ? where(isfinite(whole), whole * 0.0, 0.0) + 1.0 : Tensor()}};
  }
  const Tensor low = floor(at), up = at - low;
  return {{low, low + 1.0}, {1.0 - up, up}};
}

}  // namespace

Tensor sample(const Tensor& x, const Tensor& grid, std::string_view mode, std::string_view padding,
              bool align_corners) {
  const int dims = x.dim() - 2;
  ir::check_dtype("grid_sample", "input", x.meta(), "float");
  SMOLDER_CHECK(x.dtype() == grid.dtype(), RuntimeError,
                "grid_sampler(): expected input and grid to have same dtype, but input has ", name(x.dtype()),
                " and grid has ", name(grid.dtype()));
  SMOLDER_CHECK(
      (dims == 2 || dims == 3) && grid.dim() == x.dim(), RuntimeError,
      "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with sizes ",
      x.shape(), " and grid with sizes ", grid.shape());
  SMOLDER_CHECK(x.size(0) == grid.size(0), RuntimeError,
                "grid_sampler(): expected grid and input to have same batch size, but got input with sizes ", x.shape(),
                " and grid with sizes ", grid.shape());
  SMOLDER_CHECK(grid.size(-1) == dims, RuntimeError, "grid_sampler(): expected grid to have size ", dims,
                " in last dimension, but got grid with sizes ", grid.shape());
  for (int i = 0; i < dims; ++i) {
    SMOLDER_CHECK(x.size(2 + i) > 0, RuntimeError,
                  "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes ",
                  x.shape());
  }
  const DType dtype = compute_type(x.dtype());
  const int64_t n = x.size(0), channels = x.size(1);
  Dims shape = grid.shape();
  shape.back() = channels;
  const Tensor points = reshape(grid.to(dtype), {n, 1, -1, dims});
  std::vector<Reads> axes;
  for (int i = 0; i < dims; ++i) {
    axes.push_back(reads_of(select(points, 3, dims - 1 - i), x.size(2 + i), mode, padding, align_corners));
  }
  const Tensor flat = reshape(x.to(dtype), {n, channels, -1});
  const int64_t taps = static_cast<int64_t>(axes[0].at.size());
  Tensor total;
  int64_t combinations = 1;
  for (int i = 0; i < dims; ++i) combinations *= taps;
  for (int64_t k = 0; k < combinations; ++k) {
    Tensor number, weight, inside;
    for (int64_t i = 0, rest = k; i < dims; ++i, rest /= taps) {
      const int64_t extent = x.size(static_cast<int>(2 + i));
      const Tensor at = axes[i].at[rest % taps], w = axes[i].weight[rest % taps];
      const Tensor within = logical_and(at >= 0.0, at <= static_cast<double>(extent - 1));
      const Tensor place = where(within, at, 0.0).to(DType::kInt64);
      number = number.defined() ? number * extent + place : place;
      inside = inside.defined() ? logical_and(inside, within) : within;
      if (w.defined()) weight = weight.defined() ? weight * w : w;
    }
    const Tensor read = where(inside, gather(flat, 2, expand(number, {n, channels, number.size(2)})), 0.0);
    const Tensor part = weight.defined() ? read * weight : read;
    total = total.defined() ? total + part : part;
  }
  Dims out{n, channels};
  for (int i = 1; i <= dims; ++i) out.push_back(grid.size(i));
  return reshape(total, out).to(x.dtype());
}

Tensor affine_grid(const Tensor& theta, const std::vector<int64_t>& size, bool align_corners) {
  const int dims = static_cast<int>(size.size()) - 2;
  ir::check_dtype("affine_grid", "theta", theta.meta(), "float");
  SMOLDER_CHECK(dims == 2 || dims == 3, NotImplementedError,
                "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size ",
                Dims(std::span<const int64_t>(size)));
  SMOLDER_CHECK(theta.shape() == (Dims{size[0], dims, dims + 1}), ValueError, "Expected a batch of ",
                dims == 2 ? "2D" : "3D", " affine matrices of shape Nx", dims, "x", dims + 1, " for size ",
                Dims(std::span<const int64_t>(size)), ". Got ", theta.shape(), ".");
  Dims whole;
  for (int i = 0; i < dims; ++i) whole.push_back(size[2 + i]);
  std::vector<Tensor> columns;
  for (int i = dims - 1; i >= 0; --i) {
    const int64_t n = whole[i];
    const double reach = align_corners ? 1.0 : static_cast<double>(n - 1) / static_cast<double>(n);
    const Tensor along = n > 1 ? linspace(-reach, reach, n, theta.dtype()) : zeros({n}, theta.dtype());
    Dims shape = Dims::filled(dims, 1);
    shape[i] = n;
    columns.push_back(reshape(expand(reshape(along, shape), whole), {-1}));
  }
  columns.push_back(ones(columns[0].shape(), theta.dtype()));
  const Tensor points = matmul(stack(columns, 1), transpose(theta, 1, 2));  // [N, points, dims]
  Dims shape = whole;
  shape.insert(0, size[0]);
  shape.push_back(dims);
  return reshape(points, shape);
}

}  // namespace smolder::lazy
