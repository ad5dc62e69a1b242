"""Pools whose windows are a fraction apart: largest elements at steps that random numbers place (Graham 2014)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from smolder import _core
from smolder._autocast import listed
from smolder._creation import arange
from smolder._random_tensors import rand
from smolder._typing import Ints, Tensor
from smolder.nn._spatial import Indexed, with_indices

__all__ = [
    "fractional_max_pool2d", "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
]  # fmt: skip
_SIDES = {2: ("height", "width"), 3: ("time", "height", "width")}


def _several(name, what, value, dims):
    value = (value,) * dims if isinstance(value, int) else tuple(value)
    if len(value) == 1:
        value *= dims
    if len(value) != dims:
        count = "three " if dims == 3 else ""
        raise RuntimeError(f"{name}: {what} must either be a single Int or tuple of {count}Ints")
    return value


def _output_size(name, input, dims, output_size, output_ratio):
    if output_size is not None:
        return _several(name, "output_size", output_size, dims)
    if output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    ratio = (output_ratio,) * dims if isinstance(output_ratio, int | float) else tuple(output_ratio)
    if len(ratio) != dims:
        raise ValueError(f"{name} requires output_ratio to either be a single Int or tuple of Ints.")
    return tuple(int(n * r) for n, r in zip(input.shape[-dims:], ratio, strict=True))


def _check_samples(samples, input, batch, channels, dims):
    if samples.dim() != 3:
        raise RuntimeError(f"Expect _random_samples to have 3 dimensions, got {samples.dim()}")
    if samples.dtype != input.dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    if samples.size(0) < batch:
        raise RuntimeError("Expect _random_samples.size(0) no less then input batch size.")
    if samples.size(1) != channels:
        raise RuntimeError("Expect _random_samples.size(1) equals to input channel size.")
    if samples.size(2) != dims:
        raise RuntimeError(f"Expect _random_samples.size(2) equals to {dims}; got {samples.size(2)}.")


def _starts(sample, length, count, window):
    """Where each of `count` windows begins, for each sample: int64, one dimension more."""
    sample = sample.unsqueeze(-1)
    last = _core.full_like(sample, length - window, dtype=_core.int64)
    if count == 1:
        return last
    apart = sample.new_full((), length - window) / (count - 1)  # in the samples' dtype, as torch rounds it
    steps = arange(count - 1, dtype=sample.dtype, device=sample.device)
    first = ((steps + sample) * apart).to(_core.int64) - (sample * apart).to(_core.int64)
    return _core.cat([first, last], -1)


@listed("fractional_max_pool")
def _pool(dims, input, kernel_size, output_size, output_ratio, samples):
    name = f"fractional_max_pool{dims}d"
    size = _output_size(name, input, dims, output_size, output_ratio)
    kernel = _several(name, "kernel_size", kernel_size, dims)
    if input.dim() not in (dims + 1, dims + 2):
        raise RuntimeError(f"{name}(): Expected {dims + 1}D or {dims + 2}D tensor, but got: {list(input.shape)}")
    for i, n in enumerate(input.shape[-dims - 1 :], input.dim() - dims - 1):
        if n == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but got "
                f"{list(input.shape)} with dimension {i} being empty."
            )
    for side, n, count, window in zip(_SIDES[dims], input.shape[-dims:], size, kernel, strict=True):
        if count + window - 1 > n:
            raise RuntimeError(f"{name}(): pool {side} {window} too large relative to input {side} {n}")
    batch = input.size(0) if input.dim() == dims + 2 else 1
    channels, space = input.size(-dims - 1), input.shape[-dims:]
    if samples is None:
        samples = rand(batch, channels, dims, dtype=input.dtype, device=input.device)
    _check_samples(samples, input, batch, channels, dims)
    # The number in its plane of each element of each window: [N, C, windows, elements of one].
    at = input.new_zeros((1, 1, 1, 1), dtype=_core.int64)
    for i in range(dims):
        column = dims - 1 - i if dims == 2 else i  # of images the first number is for the width
        starts = _starts(samples[:batch, :, column], space[i], size[i], kernel[i])
        along = starts.unsqueeze(-1) + arange(kernel[i], device=input.device)  # [N, C, windows, elements] of this side
        at = at.unsqueeze(3).unsqueeze(-1) * space[i] + along.unsqueeze(2).unsqueeze(4)
        at = at.flatten(2, 3).flatten(3, 4)
    planes = input.reshape(batch, channels, math.prod(space))
    windows = planes.gather(2, at.flatten(2)).reshape(at.shape)
    values, which = windows.max(-1)
    if input.dtype.is_floating_point:  # of several nans the last, as torch's
        last = _core.where(windows.isnan(), arange(windows.size(-1), device=input.device), -1).amax(-1)
        which = _core.where(last >= 0, last, which)
    indices = at.gather(-1, which.unsqueeze(-1)).squeeze(-1)
    shape = (*input.shape[:-dims], *size)
    return values.reshape(shape), indices.reshape(shape)


def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The largest elements of windows of images, at steps that random numbers place so that `output_size` windows fit.

    input: [N, C, H, W] or [C, H, W]. output_ratio: the size as a part of the input's, in place of output_size.
    _random_samples: [N, C, 2], where in [0, 1) the steps of a plane begin, for width and height; by default drawn.
    """
    values, indices = _pool(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return (values, indices) if return_indices else values


def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The largest elements of windows of volumes, at steps that random numbers place so that `output_size` windows fit.

    input: [N, C, D, H, W] or [C, D, H, W]. output_ratio: the size as a part of the input's, in place of output_size.
    _random_samples: [N, C, 3], where in [0, 1) the steps of a volume begin, for its three sides; by default drawn.
    """
    values, indices = _pool(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return (values, indices) if return_indices else values


fractional_max_pool2d_with_indices: Indexed = with_indices(fractional_max_pool2d)
fractional_max_pool3d_with_indices: Indexed = with_indices(fractional_max_pool3d)
