// Functions that decompositions in the op table are written with, beside Builder and value_ops.h. A row's text
// sees the builder `b`, its operands as Values and its attributes by name, and `result_dtype`.
#pragma once

#include <array>
#include <limits>
#include <span>
#include <vector>

#include "smolder/ir/attrs.h"
#include "smolder/ir/builder.h"
#include "smolder/ir/infer.h"
#include "smolder/ir/value_ops.h"

namespace smolder::ir {

/// Axes as the builder takes them. Empty means all.
std::vector<int> axis_list(const Dims& axes);

/// `x` in the type that values of `dtype` are computed in: float32 for the halves. Weak numbers stay.
Value in_compute_type(Value x, DType dtype);
/// The last step of a decomposition: rounds to the recorded dtype and checks the recorded shape. Throws
/// InternalError naming `op` when the row's shape rule and its decomposition disagree.
ValueId finish(Op op, Value v, const ValueInfo& recorded);

/// Number of elements along `axes` (empty: all), as a weak number.
Value count(Value x, const Dims& axes);
Value sum(Value x, const Dims& axes, bool keepdim);
Value mean(Value x, const Dims& axes, bool keepdim);
Value amax(Value x, const Dims& axes, bool keepdim);
Value amin(Value x, const Dims& axes, bool keepdim);
/// max + log(sum(exp(x - max))) along one axis, kept; rows of -inf give -inf.
Value logsumexp_keepdim(Value x, int axis);

/// torch.matmul: vectors, matrices and batches, which broadcast. The result has dtype `out`. A bias needs a matrix `b`.
Value matmul(Value a, Value b, DType out, Value bias = {});
/// Up to how many rows of `x` weight_int8pack_mm sums products with the weights as they are.
inline constexpr int64_t kFewInt8Rows = 8;
/// `x` [rows, in] by int8 weights [out, in], times a scale for each of these [out]; in the compute type of `out`. A few
/// rows, as those of a token, are sums that read the weights as they are; for more the weights are cast once.
Value weight_int8pack_mm(Value x, Value weight, Value scales, DType out);
/// Sums what broadcasting to `x` from `shape` spread: the gradient of an expand.
Value sum_to(Value x, const SymDims& shape);
/// The slice that a program took. Where it begins at 0 or 1 its plan is for that alone if code gets better by it: in
/// ranges, which stencils and halves are made of, and in neighbours of a row. One element at any place is one plan.
Value slice_of(Value x, int axis, Dim start, Dim stop, int64_t step);
/// Where such a slice begins: 0 or 1 as a number if its plan is for that alone.
Dim settled_start(Value slice, int axis, Dim start);
/// Zeros of extent `length` along `axis` with x at start, start + step, ...: the gradient of a slice.
Value unslice(Value x, int axis, Dim length, Dim start, int64_t step);
/// x with src in place of the slice of `axis` that begins at `start` and takes every `step`th element. Memory that x
/// is, or is a view of, is written in place where nobody needs it as it was: a slice_write.
Value write_slice(Value x, Value src, int axis, Dim start, int64_t step);
/// torch.gather and torch.scatter_add, whose index may be smaller than the operands.
Value gather_along(Value x, Value index, int axis);
Value scatter_add_at(Value x, Value index, Value src, int axis);

/// `x`; where `fine` does not hold everywhere the step fails with the row's `index_error`, when it runs.
Value checked(Value x, Value fine);

/// Slices of `axis` by number, and their transpose; `index` is a vector, or zero-dim.
Value take_rows(Value x, Value index, int64_t axis);
Value add_rows(Value x, Value index, Value src, int64_t axis);
Value set_rows(Value x, Value index, Value src, int64_t axis);
/// scatter_into for zero-dim tensors too.
Value scatter_at(ScatterKind kind, Value x, Value index, Value src, int axis);
/// Largest or smallest element so far along `axis`, and where the last of them is.
std::array<Value, 2> running_extreme(ScanKind kind, Value x, int axis);
/// beta * x + alpha * product; x does not count where beta is 0, even if it is nan.
Value add_product(Value x, Value product, Value beta, Value alpha);

// -- reductions
Value logsumexp(Value x, const Dims& axes, bool keepdim);
Value argmax(Value x, std::optional<int64_t> dim, bool keepdim);
Value argmin(Value x, std::optional<int64_t> dim, bool keepdim);
/// The mean, and the sum of squared distances from it; both keep the axes.
struct Moments {
  Value mean, squares;
};
Moments moments(Value x, const Dims& axes);
Value variance(Value x, const Dims& axes, bool keepdim, Value correction);
Value vector_norm(Value x, double p, const Dims& axes, bool keepdim);
/// -1, -2, ... -n.
Dims last_axes(int n);

// -- special functions; operands are float64 but for hypotenuse's, which have the compute type of `dtype`

Value hypotenuse(Value x, Value y, DType dtype);
Value erf_inverse(Value x, DType dtype);
Value log_gamma(Value x);
Value digamma_of(Value x);
/// The n-th derivative of digamma.
Value polygamma_of(int64_t n, Value x);
/// Largest finite number of a floating-point dtype.
double largest(DType dtype);

// -- random numbers of a shape, from the words at (seed, offset)

/// Uniform in [0, 1) with as many bits as `dtype` keeps below 1, in its compute type.
Value uniform_unit(Builder& b, const SymDims& shape, Value seed, Value offset, DType dtype);
/// Normal, by Box and Muller; `dtype` is float32 or float64.
Value normal_unit(Builder& b, const SymDims& shape, Value seed, Value offset, DType dtype);
/// 63 random bits.
Value random_words(Builder& b, const SymDims& shape, Value seed, Value offset);

// -- layers: what an op and its gradient both check. They throw RuntimeError.

void check_layer_norm(std::string_view op, const Meta& input, const Dims& normalized_shape, const Meta* weight,
                      const Meta* bias);
/// Axes over which channels (dimension 1) are normalised, and the shape of one number a channel that broadcasts.
Dims channel_axes(int rank);
SymDims channel_shape(Value x);
void check_channels(std::string_view op, const Meta& input, const Meta* weight, const Meta* bias);
void check_attention(std::string_view op, const Meta& query, const Meta& key, const Meta& value, const Meta* mask);
/// `shape` with rows of another width; with `rows_first` those of all heads lie side by side.
Dims attention_shape(Dims shape, int64_t width, bool rows_first);

// -- convolutions of images [N, C, H, W] with weights [filters, C / groups, h, w]

struct ConvSteps {
  Dims stride, padding, dilation;  ///< two each
  int64_t groups;
};
/// Windows of `kernel` elements, `dilation` apart, on n elements with `padding` on both sides.
int64_t num_windows(int64_t n, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation);
/// Shape of the convolution. Throws RuntimeError where there is none.
Dims conv_shape(std::string_view op, const Meta& x, const Meta& weight, const ConvSteps& steps);
Value convolve(Value x, Value weight, const ConvSteps& steps);
/// Gradients of convolve, for an input of height and width `size` and for a weight of `kernel`.
Value convolve_back(Value grad, Value weight, const SymDims& size, const ConvSteps& steps);
Value convolve_weight(Value grad, Value x, const SymDims& kernel, const ConvSteps& steps);

// -- Fourier transforms

/// Between complex numbers, from real ones to the half of their spectrum, and from that to real ones.
enum class TransformKind : uint8_t { kC2C, kR2C, kC2R };
struct Transform {
  Dims dim;  ///< not negative; the last is the one that is halved
  int64_t normalization;
  bool forward;
};
/// Shape of the transform; `last`: how many real numbers come of a half. Throws RuntimeError, and IndexError for an
/// axis.
Dims transform_shape(TransformKind kind, std::string_view op, const Meta& self, const Dims& dim, int64_t normalization,
                     int64_t last);
Value transform(TransformKind kind, Value x, const Transform& t, Dim last);

// -- pools over the last two dimensions: `size` windows, which may look beyond the input

/// Throws RuntimeError unless every window begins within the input and what lies before it. Windows that lie side by
/// side are of any length.
void check_pool(std::string_view op, const Meta& x, const Dims& kernel, const Dims& stride, const Dims& padding,
                const Dims& dilation, const Dims& size);
/// `shape` with the last two extents those of `size`.
Dims pooled_shape(Dims shape, const Dims& size);
/// Largest element of each window, nan counting as the largest, and its number within the plane.
std::array<Value, 2> max_windows(Value x, const Dims& kernel, const Dims& stride, const Dims& padding,
                                 const Dims& dilation, const SymDims& size);
Value sum_windows(Value x, const Dims& kernel, const Dims& stride, const Dims& padding, const SymDims& size);
/// The gradient of sum_windows, for an input of height and width `size`.
Value spread_windows(Value x, const Dims& kernel, const Dims& stride, const Dims& padding, const SymDims& size);
/// How many elements avg_pool divides the sum of each window by: a number, or something that broadcasts to `size`.
Value window_sizes(Builder& b, const SymDims& input, const Dims& kernel, const Dims& stride, const Dims& padding,
                   const SymDims& size, bool count_include_pad, DType dtype);

// -- an axis in another size

struct Resampling {
  int axis;
  Dim size;     ///< of the axis in the result
  Value scale;  ///< elements from one that is read to the next
  std::string_view mode;
  bool align_corners;

  /// The elements of the result that read element i of the input: at most `taps` of them side by side, of which the
  /// first is up to `lead` elements before the place in the result that i scales to.
  struct Band {
    int64_t taps, lead;
  };
};
Value resample_axis(Value x, const Resampling& r);
/// The gradient of resample_axis; `r.size` is that of its input.
Value resample_back(Value grad, const Resampling& r, const Resampling::Band& band);
/// Resamples an axis of n elements; the arithmetic is that of `dtype`.
Resampling::Band band_of(int64_t n, int64_t size, double scale, std::string_view mode, bool align_corners, DType dtype);

// -- attention

/// Computes the rows `attention` and `attention_backward`; `mask` may be undefined.
std::array<Value, 2> attention_values(Value query, Value key, Value value, Value mask, Value scale, bool is_causal);
std::array<Value, 4> attention_gradients(Value grad, Value query, Value key, Value value, Value mask, Value output,
                                         Value lse, Value scale, bool is_causal);

inline constexpr double kPi = 3.14159265358979323846;
inline constexpr double kLog2E = 1.44269504088896340736;
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kSqrtHalf = 0.70710678118654752440;
inline constexpr double kInvSqrt2Pi = 0.39894228040143267794;
inline constexpr double kGeluScale = 0.79788456080286535588;  ///< sqrt(2 / pi)
inline constexpr double kGeluCube = 0.044715;
/// (1 + tanh(x)) / 2 is sigmoid(2 x), which takes less and keeps the digits of what is close to 0.
inline constexpr double kGeluLinear = 2 * kGeluScale, kGeluCubic = kGeluLinear * kGeluCube;
inline constexpr double kSeluAlpha = 1.6732632423543772848;
inline constexpr double kSeluScale = 1.0507009873554804934;

// -- losses

/// Nothing, the mean or the sum, as `reduction` says.
Value reduce_loss(Value loss, std::string_view reduction);

// Losses over classes (cross_entropy, nll_loss):

/// Throws RuntimeError unless input, target and weight fit; NotImplementedError for targets that are
/// probabilities.
void check_class_loss(std::string_view op, const Meta& input, const Meta& target, const Meta* weight);
/// Throws RuntimeError unless a class loss's gradient and the sum of its weights have their shapes.
void check_loss_grad(std::string_view op, const Meta& grad, const Meta& target, const Meta& total,
                     std::string_view reduction);
/// Dimension that classes are: 1, or 0 of a vector.
int class_axis(Value input);
struct ClassTarget {
  Value index;   ///< [N, 1, ...] int64, 0 where ignored
  Value valid;   ///< bool, same shape: the target is not ignore_index
  Value weight;  ///< of the target's class, 0 where ignored, in the dtype of the input
};
ClassTarget class_target(Value input, Value target, Value weight, int64_t ignore_index);
/// Weight of each class, of the shape of `input`; ones when there are none.
Value class_weights(Value input, Value weight);

// -- optimizers

/// The gradient, or its negative, with the weight decay added; nothing is added without one.
Value decayed_gradient(Value param, Value grad, Value weight_decay, bool maximize);

struct AdamMoments {
  Value mean, square, largest;  ///< `largest` equals `square` but with amsgrad
  bool amsgrad;
};
AdamMoments adam_moments(Value grad, Value mean, Value square, Value largest, Value beta1, Value beta2);
/// 1 - beta ^ step: numbers are in float64 until an element needs them, a step that a tensor holds is in the compute
/// type, in which the difference would lose what it had.
Value bias_correction(Value beta, Value step);
Value adam_update(Value param, const AdamMoments& m, Value lr, Value beta1, Value beta2, Value eps, Value step);
/// torch.lerp, which uses one rounding for the product and sum.
Value lerp(Value start, Value end, Value weight);

}  // namespace smolder::ir
