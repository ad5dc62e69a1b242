// The functions behind the rows of convolution.toml and pooling.toml: torch's arguments checked and brought to the ops
// of images. A signal is an image one row high; volumes are in op_volume.cpp.
#include <algorithm>
#include <numeric>

#include "smolder/core/size.h"
#include "smolder/ir/decompose.h"
#include "smolder/lazy/op_support.h"
#include "smolder/lazy/ops.h"

namespace smolder::lazy {
namespace {

/// Two numbers out of one for each of `dims` dimensions; `rest` where a signal has no dimension.
Dims in_two(const Dims& given, int64_t rest) { return given.size() == 1 ? Dims{rest, given[0]} : given; }

/// The image that a signal is, batched; `batched` says whether it was.
Tensor as_images(const Tensor& x, int dims, bool batched) {
  const Tensor images = batched ? x : unsqueeze(x, 0);
  return dims == 1 ? unsqueeze(images, 2) : images;
}

Tensor from_images(const Tensor& y, int dims, bool batched) {
  const Tensor out = dims == 1 ? squeeze(y, 2) : y;
  return batched ? out : squeeze(out, 0);
}

// -- convolutions

Dims conv_numbers(std::string_view what, const Dims& given, int dims) {
  SMOLDER_CHECK(given.size() == 1 || given.size() == dims, RuntimeError, "expected ", what,
                " to be a single integer value or a list of ", dims,
                " values to match the convolution dimensions, but got ", what, "=", given);
  return given.size() == dims ? given : Dims::filled(dims, given[0]);
}

bool any(const Dims& list, bool (*f)(int64_t)) { return std::any_of(list.begin(), list.end(), f); }
bool negative(int64_t v) { return v < 0; }
bool not_positive(int64_t v) { return v <= 0; }

/// Checks all that does not depend on how the arrays are used, and gives each dimension its numbers.
ConvArguments conv_arguments(std::string_view op, int dims, const Tensor& input, const Tensor& weight,
                             std::string_view dtypes, const ConvArguments& given) {
  ir::check_dtype(op, "input", input.meta(), dtypes);
  ir::check_same_dtype(op, "input", input.meta(), "weight", weight.meta());
  SMOLDER_CHECK(input.dim() == dims + 1 || input.dim() == dims + 2, RuntimeError, "Expected ", dims + 1,
                "D (unbatched) or ", dims + 2, "D (batched) input to ", op, ", but got input of size: ", input.shape());
  SMOLDER_CHECK(weight.dim() == dims + 2, RuntimeError, op, ": expected weight of ", dims + 2, " dimensions, got ",
                weight.shape());
  const ConvArguments a{conv_numbers("stride", given.stride, dims), conv_numbers("padding", given.padding, dims),
                        conv_numbers("dilation", given.dilation, dims), given.groups};
  SMOLDER_CHECK(a.groups > 0, RuntimeError, "non-positive groups is not supported");
  SMOLDER_CHECK(!any(a.padding, negative), RuntimeError, "negative padding is not supported");
  SMOLDER_CHECK(!any(a.stride, not_positive), RuntimeError, "non-positive stride is not supported");
  SMOLDER_CHECK(!any(a.dilation, not_positive), RuntimeError, "non-positive dilation is not supported");
  SMOLDER_CHECK(weight.size(0) >= a.groups, RuntimeError, "Given groups=", a.groups,
                ", expected weight to be at least ", a.groups, " at dimension 0, but got weight of size ",
                weight.shape(), " instead");
  SMOLDER_CHECK(weight.size(0) % a.groups == 0, RuntimeError, "Given groups=", a.groups,
                ", expected weight to be divisible by ", a.groups, " at dimension 0, but got weight of size ",
                weight.shape(), " instead");
  return a;
}

void check_bias(std::string_view op, const Tensor& bias, const Tensor& weight, int64_t filters,
                std::string_view given) {
  if (!bias.defined()) return;
  SMOLDER_CHECK(bias.dim() == 1 && bias.size(0) == filters, RuntimeError, given, "weight of size ", weight.shape(),
                ", expected bias to be 1-dimensional with ", filters, " elements, but got bias of size ", bias.shape(),
                " instead");
  ir::check_same_dtype(op, "weight", weight.meta(), "bias", bias.meta());
}

Tensor add_bias(const Tensor& y, const Tensor& bias, int dims) {
  if (!bias.defined()) return y;
  Dims shape = Dims::filled(dims + 1, 1);
  shape[0] = bias.size(0);
  return y + reshape(bias, shape);
}

/// "8 x 8".
std::string by(const Dims& sizes) {
  std::string text;
  for (const int64_t n : sizes) text += (text.empty() ? "" : " x ") + std::to_string(n);
  return text;
}

}  // namespace

Tensor convolve_images(const Tensor& x, const Tensor& weight, const ConvArguments& a) {
  if (is_differentiable(x.dtype())) return conv_forward(x, weight, a.stride, a.padding, a.dilation, a.groups);
  // A product of the filters with the columns, which is exact.
  const auto places = [&](int i) {
    return ir::num_windows(x.size(2 + i), weight.size(2 + i), a.stride[i], a.padding[i], a.dilation[i]);
  };
  const int64_t n = x.size(0), filters = weight.size(0), seen = weight.size(1) * weight.size(2) * weight.size(3);
  const int64_t h = places(0), w = places(1);
  const Tensor columns = im2col(x, {weight.size(2), weight.size(3)}, a.dilation, a.padding, a.stride);
  const Tensor y =
      matmul(reshape(weight, {a.groups, filters / a.groups, seen}), reshape(columns, {n, a.groups, seen, h * w}));
  return reshape(y, {n, filters, h, w});
}

Tensor convolution(std::string_view op, int dims, const Tensor& input, const Tensor& weight, const Tensor& bias,
                   const ConvArguments& given) {
  ConvArguments a = conv_arguments(op, dims, input, weight, "number", given);
  const bool batched = input.dim() == dims + 2;
  const int64_t channels = input.size(batched ? 1 : 0);
  SMOLDER_CHECK(channels == (Size(weight.size(1)) * a.groups).value(), RuntimeError, "Given groups=", a.groups,
                ", weight of size ", weight.shape(), ", expected input", input.shape(), " to have ",
                weight.size(1) * a.groups, " channels, but got ", channels, " channels instead");
  check_bias(op, bias, weight, weight.size(0), "Given ");
  Dims padded, kernel;
  for (int i = 0; i < dims; ++i) {
    padded.push_back((Size(input.size(i - dims)) + Size(2) * a.padding[i]).value());
    kernel.push_back((Size(a.dilation[i]) * (weight.size(2 + i) - 1) + 1).value());
  }
  for (int i = 0; i < dims; ++i) {
    SMOLDER_CHECK(kernel[i] > 0 && kernel[i] <= padded[i], RuntimeError, "Calculated padded input size per channel: (",
                  by(padded), "). Kernel size: (", by(kernel),
                  "). Kernel size can't be greater than actual input size");
    a.stride[i] = std::min(a.stride[i], padded[i]);  // past the end in one stride already: there is one window
  }
  const Tensor x = as_images(input, dims, batched), w = as_images(weight, dims, true);
  const ConvArguments of_images{in_two(a.stride, 1), in_two(a.padding, 0), in_two(a.dilation, 1), a.groups};
  const Tensor y = dims == 3 ? conv_volumes(x, w, a) : convolve_images(x, w, of_images);
  const Tensor out = add_bias(from_images(y, dims, batched), bias, dims);
  return channels == 0 ? slice(out, batched ? 1 : 0, 0, 0) : out;  // of none torch makes none
}

Tensor convolution(std::string_view op, int dims, const Tensor& input, const Tensor& weight, const Tensor& bias,
                   std::string_view padding, const ConvArguments& given) {
  SMOLDER_CHECK(padding == "same" || padding == "valid", RuntimeError, "Invalid padding string: '", padding, "'");
  ConvArguments a{given.stride, {0}, given.dilation, given.groups};
  if (padding == "valid") return convolution(op, dims, input, weight, bias, a);
  a = conv_arguments(op, dims, input, weight, "number", a);
  Dims low = Dims::filled(input.dim(), 0), high = low;
  for (int i = 0; i < dims; ++i) {
    SMOLDER_CHECK(a.stride[i] == 1, RuntimeError, "padding='same' is not supported for strided convolutions");
    const int64_t total = a.dilation[i] * (weight.size(2 + i) - 1);
    a.padding[i] = total / 2;
    high[input.dim() - dims + i] = total % 2;  // an even kernel looks one further at the end
  }
  const bool uneven = any(high, [](int64_t v) { return v != 0; });
  return convolution(op, dims, uneven ? constant_pad(input, low, high) : input, weight, bias, a);
}

Tensor transposed_convolution(std::string_view op, int dims, const Tensor& input, const Tensor& weight,
                              const Tensor& bias, const Dims& output_padding, const ConvArguments& given) {
  const std::string_view taken = is_complex(input.dtype()) ? "number" : "float";
  const ConvArguments a = conv_arguments(op, dims, input, weight, taken, given);
  const Dims more = conv_numbers("output_padding", output_padding, dims);
  const bool batched = input.dim() == dims + 2;
  const int64_t channels = input.size(batched ? 1 : 0), filters = (Size(weight.size(1)) * a.groups).value();
  SMOLDER_CHECK(!any(more, negative), RuntimeError, "negative output_padding is not supported");
  SMOLDER_CHECK(channels == weight.size(0), RuntimeError, "Given transposed=1, weight of size ", weight.shape(),
                ", expected input", input.shape(), " to have ", weight.size(0), " channels, but got ", channels,
                " channels instead");
  check_bias(op, bias, weight, filters, "Given transposed=1, ");
  // An output padding of a step or more is no size that a convolution would have: the whole is cut instead.
  bool beyond = false;
  Dims whole, size;
  for (int i = 0; i < dims; ++i) {
    SMOLDER_CHECK(more[i] < std::max(a.stride[i], a.dilation[i]), RuntimeError,
                  "output padding must be smaller than either stride or dilation, but got output_padding: ", more,
                  " stride: ", a.stride, " dilation: ", a.dilation);
    beyond |= more[i] >= a.stride[i];
    const Size reach = Size(a.dilation[i]) * (weight.size(2 + i) - 1);
    whole.push_back((Size(input.size(i - dims) - 1) * a.stride[i] + reach + 1).value());
    size.push_back((Size(whole[i]) - Size(2) * a.padding[i] + more[i]).value());
    SMOLDER_CHECK(size[i] > 0, RuntimeError, op, ": padding ", a.padding, " leaves nothing of the output for input ",
                  input.shape(), " and weight ", weight.shape());
  }
  const auto transpose = [&](const Dims& to, const Dims& padding) {
    const Tensor x = as_images(input, dims, batched), w = as_images(weight, dims, true);
    if (dims == 3)
      return from_images(conv_volumes_back(x, w, to, {a.stride, padding, a.dilation, a.groups}), dims, batched);
    return from_images(conv_backward_input(x, w, in_two(to, 1), in_two(a.stride, 1), in_two(padding, 0),
                                           in_two(a.dilation, 1), a.groups),
                       dims, batched);
  };
  if (!beyond) return add_bias(transpose(size, a.padding), bias, dims);
  Tensor y = transpose(whole, Dims::filled(dims, 0));
  for (int i = 0; i < dims; ++i) {
    const int axis = y.dim() - dims + i;
    const int64_t end = a.padding[i] + size[i];
    Dims low = Dims::filled(y.dim(), 0), high = low;
    high[axis] = std::max<int64_t>(0, end - whole[i]);
    y = slice(high[axis] ? constant_pad(y, low, high) : y, axis, a.padding[i], end);
  }
  return add_bias(clone(y), bias, dims);  // no view of the whole
}

Tensor at_places(const Tensor& x, int axis, const Tensor& places) {
  Dims shape = x.shape();
  shape[axis] = places.size(0);
  shape.insert(axis + 1, places.size(1));
  return reshape(index_select(x, axis, reshape(places, {-1})), shape);
}

Tensor pad_by_mode(const Tensor& x, const Dims& pad, std::string_view mode) {
  SMOLDER_CHECK(pad.size() % 2 == 0 && pad.size() / 2 <= x.dim(), RuntimeError, "pad: expected at most ", 2 * x.dim(),
                " sizes, in pairs from the last dimension on, for shape ", x.shape(), "; got ", pad);
  Tensor y = x;
  for (int i = 0; i < pad.size() / 2; ++i) {
    const int axis = x.dim() - 1 - i;
    const int64_t low = pad[2 * i], high = pad[2 * i + 1], n = x.size(axis);
    if (low == 0 && high == 0) continue;
    SMOLDER_CHECK(n > 0 && (Size(n) + low + high).value() >= 0, RuntimeError, "pad: sizes ", pad,
                  " crop more than there is of shape ", x.shape());
    if (mode == "circular") {  // of what cropping leaves
      SMOLDER_CHECK(low <= n && high <= n, RuntimeError, "Padding value causes wrapping around more than once.");
      const Tensor left = slice(y, axis, std::max<int64_t>(-low, 0), n - std::max<int64_t>(-high, 0));
      const int64_t before = std::max<int64_t>(low, 0), after = std::max<int64_t>(high, 0), m = left.size(axis);
      SMOLDER_CHECK(m > 0 || before + after == 0, RuntimeError, "pad: sizes ", pad, " crop all there is of shape ",
                    x.shape());
      y = m == 0 ? left : index_select(left, axis, remainder(arange(-before, m + after), m));
      continue;
    }
    Tensor at = arange((Size(0) - low).value(), (Size(n) + high).value());
    if (mode == "reflect") {
      SMOLDER_CHECK(
          low < n && high < n, RuntimeError,
          "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding (", low,
          ", ", high, ") at dimension ", axis, " of input ", x.shape());
      at = (n - 1) - abs((n - 1) - abs(at));
    } else {
      at = clamp_max(clamp_min(at, 0), n - 1);
    }
    y = index_select(y, axis, at);
  }
  return y;
}

// -- pools

namespace {

constexpr const char* kTuples[] = {"a single int, or a tuple of one int", "a single int, or a tuple of two ints",
                                   "a single int, or a tuple of three ints"};

/// One number for each dimension out of what was given, of which nothing means `otherwise`.
Dims pool_numbers(std::string_view op, std::string_view what, const Dims& given, int dims, const Dims& otherwise = {}) {
  if (given.empty() && !otherwise.empty()) return otherwise;
  SMOLDER_CHECK(given.size() == 1 || given.size() == dims, RuntimeError, op, ": ", what, " must either be ",
                otherwise.empty() ? "" : "omitted, ", kTuples[dims - 1]);
  return given.size() == dims ? given : Dims::filled(dims, given[0]);
}

struct Pool {
  Dims kernel, stride, padding, dilation, size;  ///< two each, or three of volumes
  bool batched;

  /// The pool of the planes of volumes.
  Pool planes() const {
    return {{kernel[1], kernel[2]},     {stride[1], stride[2]}, {padding[1], padding[2]},
            {dilation[1], dilation[2]}, {size[1], size[2]},     true};
  }
  /// The pool along their depth, a plane of theirs being a row.
  Pool depth() const {
    return {{kernel[0], 1}, {stride[0], 1}, {padding[0], 0}, {dilation[0], 1}, {size[0], size[1] * size[2]}, true};
  }
};

Pool pool(std::string_view op, int dims, const Tensor& x, std::string_view dtypes, const PoolArguments& given) {
  ir::check_dtype(op, "self", x.meta(), dtypes);
  Pool p;
  p.kernel = pool_numbers(op, "kernel_size", given.kernel, dims);
  p.stride = pool_numbers(op, "stride", given.stride, dims, p.kernel);
  p.padding = pool_numbers(op, "padding", given.padding, dims);
  p.dilation = pool_numbers(op, "dilation", given.dilation, dims, Dims::filled(dims, 1));
  SMOLDER_CHECK(x.dim() == dims + 1 || x.dim() == dims + 2, RuntimeError, op, ": Expected ", dims + 1, "D or ",
                dims + 2, "D (batch mode) tensor with optional 0 dim batch size for input, but got: ", x.shape());
  SMOLDER_CHECK(!any(p.kernel, not_positive), RuntimeError, op, ": kernel size should be greater than zero, but got ",
                p.kernel);
  SMOLDER_CHECK(!any(p.stride, not_positive), RuntimeError, op, ": stride should be greater than zero, but got ",
                p.stride);
  SMOLDER_CHECK(!any(p.dilation, not_positive), RuntimeError, op, ": dilation should be greater than zero, but got ",
                p.dilation);
  Dims from, to;
  for (int i = 0; i < dims; ++i) {
    const int64_t n = x.size(i - dims), pad = p.padding[i],
                  reach = (Size(p.dilation[i]) * (p.kernel[i] - 1) + 1).value();
    SMOLDER_CHECK(pad >= 0, RuntimeError, "pad must be non-negative, but got pad: ", pad);
    SMOLDER_CHECK(pad <= reach / 2, RuntimeError,
                  "pad should be at most half of effective kernel size, but got pad=", pad,
                  ", kernel_size=", p.kernel[i], " and dilation=", p.dilation[i]);
    SMOLDER_CHECK(pad <= p.kernel[i] / 2, RuntimeError,
                  "pad should be smaller than or equal to half of kernel size, but got pad = ", pad,
                  ", kernel = ", p.kernel[i]);
    const int64_t room = (Size(n) + 2 * pad - reach + (given.ceil_mode ? p.stride[i] - 1 : 0)).value();
    int64_t size = room < 0 ? 0 : room / p.stride[i] + 1;
    // The last window begins within the input or before it.
    if (given.ceil_mode && (size - 1) * p.stride[i] >= n + pad) --size;
    from.push_back(n);
    to.push_back(size);
  }
  SMOLDER_CHECK(!any(from, not_positive) && !any(to, not_positive), RuntimeError, op, ": Given input size: (", by(from),
                "). Calculated output size: (", by(to), "). Output size is too small");
  p.batched = x.dim() == dims + 2;
  p.kernel = in_two(p.kernel, 1);
  p.stride = in_two(p.stride, 1);
  p.padding = in_two(p.padding, 0);
  p.dilation = in_two(p.dilation, 1);
  p.size = in_two(to, 1);
  return p;
}

}  // namespace

std::tuple<Tensor, Tensor> max_pool(std::string_view op, int dims, const Tensor& x, const PoolArguments& given) {
  const Pool p = pool(op, dims, x, "number", given);
  const auto by = [](const Pool& q) {
    return [q](const Tensor& t) { return smolder::max_pool(t, q.kernel, q.stride, q.padding, q.dilation, q.size); };
  };
  const Tensor images = as_images(x, dims, p.batched);
  const auto [y, at] = dims == 3 ? max_pool_volumes(images, by(p.planes()), by(p.depth())) : by(p)(images);
  return {from_images(y, dims, p.batched), from_images(at, dims, p.batched)};
}

Tensor avg_pool(std::string_view op, int dims, const Tensor& x, const PoolArguments& given, bool count_include_pad,
                std::optional<int64_t> divisor_override) {
  SMOLDER_CHECK(divisor_override != 0, RuntimeError, "divisor must be not zero");
  const Pool p = pool(op, dims, x, "float", given);
  const auto by = [&](const Pool& q, std::optional<int64_t> divisor) {
    return [&, q, divisor](const Tensor& t) {
      return smolder::avg_pool(t, q.kernel, q.stride, q.padding, q.size, count_include_pad, divisor);
    };
  };
  const Tensor images = as_images(x, dims, p.batched);
  if (dims != 3) return from_images(by(p, divisor_override)(images), dims, p.batched);
  // A divisor given is of sums: the planes are summed then, not averaged.
  const std::optional<int64_t> of_planes = divisor_override ? std::optional<int64_t>(1) : std::nullopt;
  return from_images(pool_volumes(images, by(p.planes(), of_planes), by(p.depth(), divisor_override)), dims, p.batched);
}

namespace {

Dims adaptive_size(std::string_view op, int dims, const Tensor& x, const Dims& size) {
  SMOLDER_CHECK(x.dim() == dims + 1 || x.dim() == dims + 2, RuntimeError, op, "(): Expected ", dims + 1, "D or ",
                dims + 2, "D tensor, but got ", x.shape());
  SMOLDER_CHECK(size.size() == 1 || size.size() == dims, RuntimeError, op, ": output_size must be ", dims);
  SMOLDER_CHECK(!any(size, negative), RuntimeError, op,
                ": elements of output_size must be greater than or equal to 0 but received ", size);
  for (int i = 0; i < dims; ++i) {
    SMOLDER_CHECK(x.size(i - dims) > 0, RuntimeError, op,
                  "(): Expected input to have non-zero size for non-batch dimensions, but input has sizes ", x.shape());
  }
  Dims whole = x.shape();
  for (int i = 0; i < dims; ++i) whole[x.dim() - dims + i] = size[size.size() == dims ? i : 0];
  storage_bytes(whole, x.dtype());
  return size.size() == dims ? size : Dims::filled(dims, size[0]);
}

/// The `size` windows of n elements: where each begins and ends, [size, 1], and the longest.
struct Spans {
  Tensor begin, end;
  int64_t longest = 0;
  Spans(int64_t n, int64_t size) {
    const Tensor i = reshape(arange(size), {size, 1});
    begin = floor_divide(i * n, size);
    end = floor_divide((i + 1) * n + (size - 1), size);
    // Window k begins at a fraction k * rest mod size of an element, which takes every multiple of `common`.
    const int64_t rest = size ? n % size : 0, common = std::gcd(rest, size);
    if (size) longest = n / size + (rest == 0 ? 0 : rest == common ? 1 : 2);
  }
  /// Places of each window, [size, longest]; those beyond its end may be of another.
  Tensor places() const { return begin + arange(longest); }
};

bool is_even(const Tensor& x, const Dims& size) {
  for (int i = 0; i < size.size(); ++i) {
    if (size[i] == 0 || x.size(i - size.size()) % size[i] != 0) return false;
  }
  return true;
}

Dims even_kernel(const Tensor& x, const Dims& size) {
  Dims kernel;
  for (int i = 0; i < size.size(); ++i) kernel.push_back(x.size(i - size.size()) / size[i]);
  return kernel;
}

}  // namespace

Tensor adaptive_avg_pool(std::string_view op, int dims, const Tensor& x, const Dims& given) {
  const Dims size = adaptive_size(op, dims, x, given);
  ir::check_dtype(op, "self", x.meta(), "float");
  if (is_even(x, size)) {
    const Dims kernel = even_kernel(x, size);
    return avg_pool(op, dims, x, {kernel, kernel, {0}, {}, false}, true, {});
  }
  Tensor y = x;
  for (int i = 0; i < dims; ++i) {
    const int axis = x.dim() - dims + i;
    const Spans spans(x.size(axis), size[i]);
    if (size[i] == 0) {
      y = slice(y, axis, 0, 0);
      continue;
    }
    const Tensor places = spans.places();
    const Tensor seen = at_places(y, axis, clamp_max(places, x.size(axis) - 1));
    Dims shape = Dims::filled(seen.dim() - axis, 1);
    shape[0] = size[i];
    const Tensor count = reshape((spans.end - spans.begin).to(y.dtype()), shape);
    shape[1] = spans.longest;
    const Tensor inside = where(reshape(places < spans.end, shape), seen, 0.0);
    shape.erase(1);
    y = sum(inside, axis + 1) / reshape(count, shape);
  }
  return y;
}

std::tuple<Tensor, Tensor> adaptive_max_pool(std::string_view op, int dims, const Tensor& x, const Dims& given) {
  const Dims size = adaptive_size(op, dims, x, given);
  ir::check_dtype(op, "self", x.meta(), "number");
  if (is_even(x, size)) {
    const Dims kernel = even_kernel(x, size);
    return max_pool(op, dims, x, {kernel, kernel, {0}, {}, false});
  }
  Dims shape = x.shape();
  for (int i = 0; i < dims; ++i) shape[x.dim() - dims + i] = size[i];
  if (numel(shape) == 0) return {zeros(shape, x.dtype()), zeros(shape, DType::kInt64)};
  const bool batched = x.dim() == dims + 2;
  const Tensor images = as_images(x, dims, batched);
  if (dims == 3) {
    const auto to = [&](const Dims& n) { return [=](const Tensor& t) { return adaptive_max_pool(op, 2, t, n); }; };
    const auto [y, at] = max_pool_volumes(images, to({size[1], size[2]}), to({size[0], size[1] * size[2]}));
    return {from_images(y, dims, batched), from_images(at, dims, batched)};
  }
  const int64_t width = images.size(3);
  const Dims two = in_two(size, 1);
  const Spans rows(images.size(2), two[0]), columns(width, two[1]);
  // Windows that are shorter than the longest see their last element again.
  const Tensor seen = at_places(at_places(images, 3, minimum(columns.places(), columns.end - 1)), 2,
                                minimum(rows.places(), rows.end - 1));
  Dims windows{images.size(0), images.size(1), two[0], two[1], rows.longest * columns.longest};
  const auto [y, at] = max(reshape(permute(seen, {0, 1, 2, 4, 3, 5}), windows), -1);
  const auto along = [&](const Tensor& t, int axis) {
    Dims one = Dims::filled(2, 1);
    one[axis] = t.size(0);
    return reshape(t, one);
  };
  const Tensor row = minimum(along(rows.begin, 0) + floor_divide(at, columns.longest), along(rows.end, 0) - 1);
  const Tensor column = minimum(along(columns.begin, 1) + remainder(at, columns.longest), along(columns.end, 1) - 1);
  return {from_images(y, dims, batched), from_images(row * width + column, dims, batched)};
}

}  // namespace smolder::lazy
