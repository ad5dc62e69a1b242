"""The ops that torchvision's library in C++ registers, which is built for PyTorch and can't be opened here: made of ops of
Smolder's. Boxes are kept by suppression on the host, as how many there are is known there alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from smolder import _core, _ops
from smolder._creation import from_numpy
from smolder._typing import Tensor
from smolder.library import Library

_ROI = "float spatial_scale, int pooled_height, int pooled_width"
_SIZES = "int batch_size, int channels, int height, int width"
_CONV = (
    "int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, int groups, int offset_groups, "
    "bool use_mask"
)
# Every op of the library, for torchvision asks for them when it is imported; those without a function raise when called.
_SCHEMAS = f"""
nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor
roi_align(Tensor input, Tensor rois, {_ROI}, int sampling_ratio, bool aligned) -> Tensor
_roi_align_backward(Tensor grad, Tensor rois, {_ROI}, {_SIZES}, int sampling_ratio, bool aligned) -> Tensor
roi_pool(Tensor input, Tensor rois, {_ROI}) -> (Tensor, Tensor)
_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, {_ROI}, {_SIZES}) -> Tensor
ps_roi_align(Tensor input, Tensor rois, {_ROI}, int sampling_ratio) -> (Tensor, Tensor)
_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_ROI}, int sampling_ratio, {_SIZES}) -> Tensor
ps_roi_pool(Tensor input, Tensor rois, {_ROI}) -> (Tensor, Tensor)
_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_ROI}, {_SIZES}) -> Tensor
deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, {_CONV}) -> Tensor
_deform_conv2d_backward(Tensor grad, Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, {_CONV}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)
"""
_library: Library | None = None


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Numbers of the boxes (x1, y1, x2, y2) to keep, best first: none overlaps a better one that is kept by more."""
    if dets.dim() != 2 or dets.shape[1] != 4:
        raise RuntimeError(f"boxes should be a 2d tensor of 4 columns, got {list(dets.shape)}")
    if scores.dim() != 1 or scores.shape[0] != dets.shape[0]:
        raise RuntimeError(
            f"boxes and scores should have same number of elements in dimension 0, got {dets.shape[0]} and {scores.shape[0]}"
        )
    boxes = dets.detach().float().cpu().numpy() if dets.dtype is not _core.float64 else dets.detach().cpu().numpy()
    order = scores.detach().sort(descending=True, stable=True)[1].cpu().numpy()
    x1, y1, x2, y2 = boxes[order].T
    areas = (x2 - x1) * (y2 - y1)
    alive, kept = numpy.ones(len(order), bool), []
    for i in range(len(order)):
        if not alive[i]:
            continue
        kept.append(order[i])
        rest = slice(i + 1, None)
        width = numpy.maximum(0, numpy.minimum(x2[i], x2[rest]) - numpy.maximum(x1[i], x1[rest]))
        height = numpy.maximum(0, numpy.minimum(y2[i], y2[rest]) - numpy.maximum(y1[i], y1[rest]))
        shared = width * height
        with numpy.errstate(invalid="ignore", divide="ignore"):
            alive[rest] &= ~(shared / (areas[i] + areas[rest] - shared) > iou_threshold)
    return from_numpy(numpy.array(kept, numpy.int64)).to(dets.device)


def _corners(at, size):
    """The two elements around positions along an axis, and the weight of the second."""
    low = at.clamp(min=0).floor().clamp(max=size - 1)
    high = (low + 1).clamp(max=size - 1)
    part = _core.where(low >= size - 1, 0.0, at.clamp(min=0) - low)
    return low.to(_core.int64), high.to(_core.int64), part


def _samples(start, length, bins, ratio, size):
    """Positions along an axis of all samples of boxes, (boxes, bins, samples), which of them count, and how many do."""
    count = _core.full_like(length, ratio) if ratio > 0 else (length / bins).ceil()
    most = ratio if ratio > 0 else int(max(count.max().item(), 1)) if count.numel() else 1
    steps = _core.arange(most, dtype=start.dtype).to(start.device)
    within = (steps + 0.5) / count.clamp(min=1).unsqueeze(1)
    bin_size = (length / bins).reshape((-1, 1, 1))
    numbers = _core.arange(bins, dtype=start.dtype).to(start.device).reshape((1, -1, 1))
    at = start.reshape((-1, 1, 1)) + bin_size * (numbers + within.unsqueeze(1))
    counts = (steps.unsqueeze(0) < count.unsqueeze(1)).unsqueeze(1) & (at >= -1) & (at <= size)
    return at, counts, count


def roi_align(
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """Means of bilinear samples in bins of boxes (number in the batch, x1, y1, x2, y2): (boxes, channels, bins, bins)."""
    if rois.shape[1] != 5:
        raise RuntimeError("rois must have shape as Tensor[K, 5]")
    n, c, h, w = input.shape
    k = rois.shape[0]
    if k == 0:
        return input.sum() * 0 + input.new_zeros((0, c, pooled_height, pooled_width))
    rois = rois.detach()
    left, top, right, bottom = (rois[:, 1:] * spatial_scale - (0.5 if aligned else 0.0)).unbind(1)
    width, height = right - left, bottom - top
    if not aligned:
        width, height = width.clamp(min=1.0), height.clamp(min=1.0)
    ys, in_y, count_y = _samples(top, height, pooled_height, sampling_ratio, h)
    xs, in_x, count_x = _samples(left, width, pooled_width, sampling_ratio, w)
    shape_y, shape_x = (k, *ys.shape[1:], 1, 1), (k, 1, 1, *xs.shape[1:])
    counts = (in_y.reshape(shape_y) & in_x.reshape(shape_x)).to(input.dtype)
    first = (rois[:, 0].to(_core.int64) * (h * w)).reshape((k, 1, 1, 1, 1))
    pixels = input.permute(0, 2, 3, 1).reshape((n * h * w, c))
    (y0, y1, py), (x0, x1, px) = _corners(ys, h), _corners(xs, w)
    total = None
    for y, wy in ((y0, 1 - py), (y1, py)):
        for x, wx in ((x0, 1 - px), (x1, px)):
            at = first + y.reshape(shape_y) * w + x.reshape(shape_x)
            weight = wy.reshape(shape_y) * wx.reshape(shape_x) * counts
            part = pixels.index_select(0, at.reshape(-1)) * weight.reshape((-1, 1)).to(input.dtype)
            total = part if total is None else total + part
    total = total.reshape((k, *ys.shape[1:], *xs.shape[1:], c)).sum((2, 4))
    total = total / (count_y * count_x).clamp(min=1).reshape((k, 1, 1, 1)).to(input.dtype)
    return total.permute(0, 3, 1, 2)


def deform_conv2d(
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor,
    bias: Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Tensor:
    """A convolution whose samples lie where `offset` moves them, bilinearly, each times its number of `mask`."""
    n, c, h, w = input.shape
    out_c, _, kh, kw = weight.shape
    out_h, out_w = offset.shape[-2:]
    taps = kh * kw

    def grid(kernel, dilation, stride, pad, outs, axis):
        taps_at = _core.arange(kernel).to(offset.device) * dilation - pad
        outs_at = _core.arange(outs).to(offset.device) * stride
        shape = [kh, kw, out_h, out_w]
        a, b = [1] * 4, [1] * 4
        a[axis], b[axis + 2] = kernel, outs
        return (taps_at.reshape(a) + outs_at.reshape(b)).expand(shape).reshape((taps, out_h, out_w)).to(offset.dtype)

    moved = offset.reshape((n, offset_groups, taps, 2, out_h, out_w))
    y = moved[:, :, :, 0] + grid(kh, dilation_h, stride_h, pad_h, out_h, 0)
    x = moved[:, :, :, 1] + grid(kw, dilation_w, stride_w, pad_w, out_w, 1)
    flat = input.reshape((n, offset_groups, c // offset_groups, h * w))
    y_low, x_low = y.detach().floor(), x.detach().floor()
    py, px = y - y_low, x - x_low
    columns = None
    for dy, wy in ((0, 1 - py), (1, py)):
        for dx, wx in ((0, 1 - px), (1, px)):
            yi, xi = y_low + dy, x_low + dx
            inside = ((yi >= 0) & (yi < h) & (xi >= 0) & (xi < w)).to(input.dtype)
            at = (yi.clamp(0, h - 1) * w + xi.clamp(0, w - 1)).to(_core.int64)
            at = at.reshape((n, offset_groups, 1, -1)).expand((n, offset_groups, c // offset_groups, -1))
            part = flat.gather(3, at) * (wy * wx * inside).reshape((n, offset_groups, 1, -1))
            columns = part if columns is None else columns + part
    if use_mask:
        columns = columns * mask.reshape((n, offset_groups, 1, taps * out_h * out_w))
    columns = columns.reshape((n, groups, c // groups * taps, out_h * out_w))
    kernels = weight.reshape((1, groups, out_c // groups, c // groups * taps))
    out = _core.matmul(kernels, columns).reshape((n, out_c, out_h, out_w))
    return out + bias.reshape((1, out_c, 1, 1))


def _cuda_version() -> int:
    """-1: there is no library that was built for a version."""
    return -1


_FUNCTIONS: dict[str, Callable[..., Any]] = {"nms": nms, "roi_align": roi_align, "deform_conv2d": deform_conv2d}


def define() -> None:
    """Registers the ops, once."""
    global _library
    if _library is not None:
        return
    _library = Library("torchvision", "DEF")
    _ops.known["torchvision::_cuda_version"] = _cuda_version  # which no schema says: it returns a number
    for schema in _SCHEMAS.strip().splitlines():
        name = _library.define(schema)
        if name in _FUNCTIONS:
            _library.impl(name, _FUNCTIONS[name], "CompositeImplicitAutograd")
