// Convolutions and pools of volumes, made of those of images: what a window sees along the depth becomes channels, or
// is reduced after the planes are.
#include "smolder/ir/decompose.h"
#include "smolder/lazy/op_support.h"
#include "smolder/lazy/ops.h"

namespace smolder::lazy {
namespace {

/// Where each of `count` windows looks along the depth: [count, kernel].
Tensor depths(int64_t count, int64_t kernel, int64_t stride, int64_t dilation) {
  return reshape(arange(count) * stride, {count, 1}) + arange(kernel) * dilation;
}

Dims plane(const Dims& numbers) { return {numbers[1], numbers[2]}; }

/// The weight of images whose channels are those of volumes at each depth of a window.
Tensor flat_weight(const Tensor& w) { return reshape(w, {w.size(0), w.size(1) * w.size(2), w.size(3), w.size(4)}); }

}  // namespace

Tensor conv_volumes(const Tensor& x, const Tensor& weight, const ConvArguments& a) {
  const int64_t kernel = weight.size(2),
                count = ir::num_windows(x.size(2), kernel, a.stride[0], a.padding[0], a.dilation[0]);
  const Dims around{0, 0, a.padding[0], 0, 0};
  const Tensor padded = a.padding[0] ? constant_pad(x, around, around) : x;
  const Tensor seen = at_places(padded, 2, depths(count, kernel, a.stride[0], a.dilation[0]));
  const Tensor images =
      reshape(permute(seen, {0, 2, 1, 3, 4, 5}), {x.size(0) * count, x.size(1) * kernel, x.size(3), x.size(4)});
  const Tensor y =
      convolve_images(images, flat_weight(weight), {plane(a.stride), plane(a.padding), plane(a.dilation), a.groups});
  return permute(reshape(y, {x.size(0), count, y.size(1), y.size(2), y.size(3)}), {0, 2, 1, 3, 4});
}

Tensor conv_volumes_back(const Tensor& y, const Tensor& weight, const Dims& size, const ConvArguments& a) {
  const int64_t n = y.size(0), count = y.size(2), kernel = weight.size(2), filters = weight.size(1) * a.groups;
  const Tensor images = reshape(permute(y, {0, 2, 1, 3, 4}), {n * count, y.size(1), y.size(3), y.size(4)});
  const Tensor planes = conv_backward_input(images, flat_weight(weight), plane(size), plane(a.stride), plane(a.padding),
                                            plane(a.dilation), a.groups);
  const Tensor windows = permute(reshape(planes, {n, count, filters, kernel, size[1], size[2]}), {0, 2, 1, 3, 4, 5});
  const Tensor at = reshape(depths(count, kernel, a.stride[0], a.dilation[0]), {-1});
  const Tensor whole = zeros({n, filters, size[0] + 2 * a.padding[0], size[1], size[2]}, y.dtype());
  const Tensor sums = index_add(whole, 2, at, reshape(windows, {n, filters, count * kernel, size[1], size[2]}));
  return a.padding[0] ? slice(sums, 2, a.padding[0], a.padding[0] + size[0]) : sums;
}

Tensor pool_volumes(const Tensor& x, const PoolPart& planes, const PoolPart& depth) {
  const int64_t n = x.size(0), c = x.size(1), d = x.size(2);
  const Tensor flat = planes(reshape(x, {n, c * d, x.size(3), x.size(4)}));
  const int64_t h = flat.size(2), w = flat.size(3);
  const Tensor y = depth(reshape(flat, {n, c, d, h * w}));
  return reshape(y, {n, c, y.size(2), h, w});
}

std::tuple<Tensor, Tensor> max_pool_volumes(const Tensor& x, const MaxPoolPart& planes, const MaxPoolPart& depth) {
  const int64_t n = x.size(0), c = x.size(1), d = x.size(2), area = x.size(3) * x.size(4);
  const auto [flat, in_plane] = planes(reshape(x, {n, c * d, x.size(3), x.size(4)}));
  const int64_t h = flat.size(2), w = flat.size(3);
  const auto [y, in_depth] = depth(reshape(flat, {n, c, d, h * w}));
  const Tensor chosen = reshape(in_depth, {n, c, -1});
  const Tensor at = floor_divide(chosen, h * w) * area + gather(reshape(in_plane, {n, c, d * h * w}), 2, chosen);
  const Dims shape{n, c, y.size(2), h, w};
  return {reshape(y, shape), reshape(at, shape)};
}

}  // namespace smolder::lazy
