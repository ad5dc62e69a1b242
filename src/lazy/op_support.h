// Tools of the user functions of the op table, beside other ops.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "smolder/core/scalar.h"
#include "smolder/lazy/record.h"
#include "smolder/lazy/result_layout.h"
#include "smolder/lazy/strides.h"
#include "smolder/lazy/tensor.h"

namespace smolder::lazy {

/// Key or value of grouped-query attention with its heads repeated to those of `query` (dimension -3).
Tensor repeat_heads(const Tensor& x, const Tensor& query);
/// attention() after broadcasting the leading dimensions of its operands.
Tensor attention_broadcast(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& attn_mask,
                           double scale, bool is_causal);

/// torch's ways to compute attention, bits of a set.
enum AttentionWay : int { kMathAttention = 1, kFlashAttention = 2, kEfficientAttention = 4, kCudnnAttention = 8 };
/// Which of them may be used: all, unless the program says otherwise.
int attention_ways();
void set_attention_ways(int ways);
/// False: the scores are to be in memory. Throws RuntimeError where there is no way that may be used.
bool may_fuse_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& attn_mask);

/// The dtype that the elements of all of them convert to.
DType result_type(TensorList tensors);
/// Throws torch's RuntimeError, of a write, where several elements of `t` are in one place.
void check_no_repeats(const Tensor& t);
/// Throws RuntimeError, as torch does, when `dtype` holds no number like `value`: an integer out of its range, a
/// float that would become infinite or be cut to such an integer. A negative integer is let wrap in uint8.
void check_fits(Scalar value, DType dtype);
/// Throws RuntimeError unless a factor, called `what`, may scale operands whose result is of this dtype.
void check_factor(std::string_view op, std::string_view what, Scalar factor, DType result);
/// A number as an element of a dtype of integers, its fraction cut off. Throws RuntimeError where it is none.
Scalar integer_element(std::string_view op, Scalar value, DType dtype);
/// The number that is taken from n for a variance's divisor: one whose difference from n overflows nothing, and for nan
/// one that leaves nothing of n.
Scalar correction_of(Scalar correction);
/// Throws torch's RuntimeError where a norm is of no elements and has no number for that: of an order below 0 or
/// infinite.
void check_norm(const Tensor& self, double p, const Dims& axes);
/// A bound that clamp is given: where it is an integer that the dtype does not hold it bounds nothing, as the least or
/// largest number does, or raises RuntimeError, as nothing could be within it.
Operand clamp_bound(const Tensor& self, const Operand& bound, std::string_view which);

/// Checks a quotient or remainder of integers: throws RuntimeError where the divisor is the number 0, and returns a
/// tensor as one whose zeros are found when the step runs. Undefined where `other` will do as it is.
Tensor divisor_of(const Operand& self, const Operand& other);

/// Throws RuntimeError when a gradient of `x` is asked for; for operands that a row has no formula for.
void check_no_gradient(std::string_view op, std::string_view name, const Tensor& x);

/// `made`, which is new, in channels last where `like` is, else row-major.
Tensor in_format_of(Tensor made, const Tensor& like);
/// A copy whose dimensions lie in `order`, from the outermost on; row-major where it is empty. Throws RuntimeError
/// unless it names each dimension once.
Tensor clone_in_order(const Tensor& t, const Dims& order = {});

/// The views that one call returned: with gradients, none of them may be written in place.
std::vector<Tensor> of_one_call(std::vector<Tensor> views);

/// A loss, its mean or its sum.
Tensor reduced(const Tensor& loss, std::string_view reduction);

/// Called where `e`, of an op that `op` is made of, was caught: throws it again under the name that the user knows,
/// where its text begins with the other ("addmm: expected ..." out of addmv).
[[noreturn]] void raise_as(std::string_view op, const Error& e);

/// `f` of each.
std::vector<Tensor> each(TensorList tensors, auto f) {
  std::vector<Tensor> out;
  for (size_t i = 0; i < tensors.size(); ++i) out.push_back(f(tensors.data()[i]));
  return out;
}

/// An integer that decides a shape, out of a tensor of one; ends the step, for `reason`.
int64_t read_size(const Tensor& x, std::string_view reason);

// -- arrangements (op_arrange.cpp)

/// `sections`, which must divide the extent of `axis`.
int64_t whole_sections(std::string_view op, const Tensor& x, int64_t sections, int axis);
Tensor move_axes(const Tensor& x, const Dims& source, const Dims& destination);
Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims);
/// Copies of x side by side; `repeats` has an entry for each dimension, leading ones beyond x's.
Tensor repeat(const Tensor& x, const Dims& repeats);
Tensor repeat_each(const Tensor& x, const Tensor& repeats, std::optional<int64_t> dim,
                   std::optional<int64_t> output_size);
/// Raises where a dimension of n elements is to be more pieces than memory has tensors for.
void check_pieces(std::string_view op, int64_t pieces, int64_t n);
/// unfold: a view.
Tensor windows(const Tensor& x, int64_t dimension, int64_t size, int64_t step);
Tensor diagonal(const Tensor& x, int64_t offset, int64_t dim1, int64_t dim2);
Tensor diag_embed(const Tensor& x, int64_t offset, int64_t dim1, int64_t dim2);
Tensor fill_diagonal(const Tensor& x, Scalar value, bool wrap);
Tensor differences(const Tensor& x, int64_t n, int64_t dim, const Tensor& prepend, const Tensor& append);
Tensor trapezoid(const Tensor& y, const Tensor& x, std::optional<Scalar> dx, int64_t dim);
Tensor tensordot(const Tensor& a, const Tensor& b, const Dims& dims_a, const Dims& dims_b);
Tensor kron(const Tensor& a, const Tensor& b);
Tensor cross(const Tensor& a, const Tensor& b, std::optional<int64_t> dim);
/// Sums of products as an equation says; letters are dimensions, `...` those that have none (einsum.cpp).
Tensor einsum(std::string_view equation, TensorList operands);

// -- indices and masks (op_index.cpp)

/// x[..., i, j, ...] for index tensors of the dimensions from `dim` on, which broadcast and may be negative.
Tensor index_at(const Tensor& x, int64_t dim, TensorList indices);
/// x with `values` there, or added there.
Tensor index_put_at(const Tensor& x, int64_t dim, const Tensor& values, bool accumulate, TensorList indices);
Tensor take_along_dim(const Tensor& x, const Tensor& indices, int64_t dim);
Tensor scatter_reduce(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src, std::string_view reduce,
                      bool include_self);
Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source);
/// x[..., mask] = values, the mask covering dimensions from `dim` on.
Tensor masked_put(const Tensor& x, const Tensor& mask, int64_t dim, const Tensor& values);
Tensor masked_select(const Tensor& x, const Tensor& mask);
Tensor nonzero(const Tensor& x, std::string_view op);
/// Distinct elements, which each is, and how often; `sorted`, or else of neighbours alone.
std::tuple<Tensor, Tensor, Tensor> unique(const Tensor& x, bool sorted);
std::tuple<Tensor, Tensor, Tensor> unique_rows(const Tensor& x, int64_t dim, bool sorted);
Tensor bincount(const Tensor& x, const Tensor& weights, int64_t minlength);
Tensor histogram(const Tensor& x, int64_t bins, Scalar min, Scalar max);
Tensor search(const Tensor& sorted, const Tensor& x, bool right, bool out_int32, const Tensor& sorter);
Tensor is_in(const Tensor& elements, const Tensor& among, bool invert);
std::tuple<Tensor, Tensor> median(const Tensor& x, int64_t dim, bool keepdim, bool skip_nan);
/// The median of all elements. Its gradient goes to all that are equal to it, in equal parts.
Tensor median_of_all(const Tensor& x, bool skip_nan);
Tensor quantile(std::string_view op, const Tensor& x, const Tensor& q, std::optional<int64_t> dim, bool keepdim,
                std::string_view interpolation, bool skip_nan);

// -- convolutions and pools over the last `dims` dimensions (op_conv.cpp)

/// One number for each of `dims` dimensions, given so or as one for all.
struct ConvArguments {
  Dims stride, padding, dilation;
  int64_t groups = 1;
};
Tensor convolution(std::string_view op, int dims, const Tensor& input, const Tensor& weight, const Tensor& bias,
                   const ConvArguments& arguments);
/// The same with padding "same" or "valid".
Tensor convolution(std::string_view op, int dims, const Tensor& input, const Tensor& weight, const Tensor& bias,
                   std::string_view padding, const ConvArguments& arguments);
Tensor transposed_convolution(std::string_view op, int dims, const Tensor& input, const Tensor& weight,
                              const Tensor& bias, const Dims& output_padding, const ConvArguments& arguments);
/// conv_forward, and the same of integers.
Tensor convolve_images(const Tensor& x, const Tensor& weight, const ConvArguments& arguments);
/// Elements of `axis` at `places`, [size, longest], which take the place of the axis.
Tensor at_places(const Tensor& x, int axis, const Tensor& places);

/// x with elements of itself around its last dimensions; mode is "reflect", "replicate" or "circular".
Tensor pad_by_mode(const Tensor& x, const Dims& pad, std::string_view mode);

struct PoolArguments {
  Dims kernel, stride, padding, dilation;
  bool ceil_mode = false;
};
/// Largest elements of windows, and their numbers within the plane.
std::tuple<Tensor, Tensor> max_pool(std::string_view op, int dims, const Tensor& input, const PoolArguments& arguments);
Tensor avg_pool(std::string_view op, int dims, const Tensor& input, const PoolArguments& arguments,
                bool count_include_pad, std::optional<int64_t> divisor_override);
Tensor adaptive_avg_pool(std::string_view op, int dims, const Tensor& input, const Dims& size);
std::tuple<Tensor, Tensor> adaptive_max_pool(std::string_view op, int dims, const Tensor& input, const Dims& size);

// -- the same of volumes [N, C, D, H, W], with three numbers each (op_volume.cpp)

Tensor conv_volumes(const Tensor& x, const Tensor& weight, const ConvArguments& arguments);
/// Gradient of conv_volumes with respect to its input, of `size`.
Tensor conv_volumes_back(const Tensor& y, const Tensor& weight, const Dims& size, const ConvArguments& arguments);
/// Pools images [N, C, H, W].
using PoolPart = std::function<Tensor(const Tensor&)>;
using MaxPoolPart = std::function<std::tuple<Tensor, Tensor>(const Tensor&)>;
/// A pool of volumes: `planes` over height and width, then `depth` over the height of images whose rows are planes.
Tensor pool_volumes(const Tensor& x, const PoolPart& planes, const PoolPart& depth);
std::tuple<Tensor, Tensor> max_pool_volumes(const Tensor& x, const MaxPoolPart& planes, const MaxPoolPart& depth);

// -- images between their pixels, and windows as columns (op_resample.cpp)

struct WindowArguments {
  Dims kernel, dilation, padding, stride;
};
Tensor to_columns(const Tensor& x, const WindowArguments& arguments);
/// Sums of columns where to_columns took them from.
Tensor from_columns(const Tensor& x, const Dims& output_size, const WindowArguments& arguments);
/// x in another size; `scales` are of depth, height and width.
Tensor interpolate(const Tensor& x, const Dims& size, std::string_view mode, bool align_corners, bool antialias,
                   const std::array<std::optional<double>, 3>& scales);
Tensor sample(const Tensor& x, const Tensor& grid, std::string_view mode, std::string_view padding, bool align_corners);
Tensor affine_grid(const Tensor& theta, const std::vector<int64_t>& size, bool align_corners);

// -- recurrent layers (op_recurrent.cpp)

/// The weights of a direction of a layer; biases and the projection of an LSTM's h may be undefined.
struct RecurrentWeights {
  Tensor ih, hh, bias_ih, bias_hh, hr;
};
std::tuple<Tensor, Tensor> rnn_layer(const Tensor& input, const Tensor& hx, const RecurrentWeights& weights,
                                     const std::vector<int64_t>& batch_sizes, std::string_view nonlinearity,
                                     bool reverse);
std::tuple<Tensor, Tensor, Tensor> lstm_layer(const Tensor& input, const Tensor& hx, const Tensor& cx,
                                              const RecurrentWeights& weights, const std::vector<int64_t>& batch_sizes,
                                              bool reverse);
std::tuple<Tensor, Tensor> gru_layer(const Tensor& input, const Tensor& hx, const RecurrentWeights& weights,
                                     const std::vector<int64_t>& batch_sizes, bool reverse);

// -- normalisation (op_norm.cpp)

/// Running statistics and what normalisation by them takes; running tensors may be undefined.
struct NormArguments {
  Tensor running_mean, running_var, weight, bias;
  Scalar momentum, eps;
};
Tensor batch_norm(const Tensor& input, const NormArguments& arguments, bool training);
Tensor instance_norm(const Tensor& input, const NormArguments& arguments, bool use_input_stats);
Tensor group_norm(const Tensor& input, int64_t num_groups, const Tensor& weight, const Tensor& bias, Scalar eps);
Tensor rms_norm(const Tensor& input, const Dims& normalized_shape, const Tensor& weight, std::optional<double> eps);

// -- draws (op_random.cpp)

Tensor multinomial(const Tensor& weights, int64_t count, bool replacement, Generator* generator);
/// Random integers in [low, to), or up to the largest that x's dtype holds exactly.
/// That a dtype holds the integers of [low, high), of which `op` draws: torch says so of integers and of float16 alone.
void check_drawn(std::string_view op, int64_t low, int64_t high, DType dtype);
Tensor random_fill(const Tensor& x, int64_t low, std::optional<int64_t> to, Generator* generator);

}  // namespace smolder::lazy
