"""Further pools, norms of neighbours and dropout, as functions that are made of other ops."""

from __future__ import annotations

import math
from collections.abc import Sequence

from smolder import _core
from smolder._autocast import listed
from smolder._creation import zeros
from smolder._random_tensors import rand
from smolder._typing import Ints, Tensor
from smolder.nn import _spatial
from smolder.nn._activations import written

__all__ = [
    "alpha_dropout", "feature_alpha_dropout", "local_response_norm", "lp_pool1d", "lp_pool2d", "lp_pool3d",
    "max_unpool1d", "max_unpool2d", "max_unpool3d",
]  # fmt: skip


def _sizes(value, dims):
    return (value,) * dims if isinstance(value, int) else tuple(value) * (dims if len(value) == 1 else 1)


def _lp_pool(pool, dims, input, norm_type, kernel_size, stride, ceil_mode):
    means = pool(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    # As torch's: the sign is that of the sum, and what is below 0 counts as 0.
    return (_core.sign(means) * _core.relu(means.abs()) * math.prod(_sizes(kernel_size, dims))).pow(1.0 / norm_type)


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: int, stride: int | None = None, ceil_mode: bool = False
) -> Tensor:
    """Roots of sums of powers over windows of signals: of [N, C, L] or [C, L]."""
    return _lp_pool(_spatial.avg_pool1d, 1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
) -> Tensor:
    """Roots of sums of powers over windows of images: of [N, C, H, W] or [C, H, W]."""
    return _lp_pool(_spatial.avg_pool2d, 2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
) -> Tensor:
    """Roots of sums of powers over windows of volumes: of [N, C, D, H, W] or [C, D, H, W]."""
    return _lp_pool(_spatial.avg_pool3d, 3, input, norm_type, kernel_size, stride, ceil_mode)


@listed("max_unpool")
def _max_unpool(dims, input, indices, kernel_size, stride, padding, output_size):
    kernel, pad = _sizes(kernel_size, dims), _sizes(padding, dims)
    step = kernel if stride is None else _sizes(stride, dims)
    if input.shape != indices.shape:
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(input.shape)}) but got indices "
            f"tensor with shape: {list(indices.shape)}"
        )
    if indices.dtype != _core.int64:
        raise RuntimeError(f"elements in indices should be type int64 but got: {indices.dtype}")
    size = [(n - 1) * s + k - 2 * p for n, s, k, p in zip(input.shape[-dims:], step, kernel, pad, strict=True)]
    if output_size is not None:
        asked = list(output_size)[-dims:]
        for got, usual, s in zip(asked, size, step, strict=True):
            if not usual - s < got < usual + s:
                raise ValueError(
                    f"invalid output_size {list(output_size)}: each size must be within a stride of {size}"
                )
        size = asked
    flat = input.flatten(-dims)
    out = zeros((*flat.shape[:-1], math.prod(size)), dtype=input.dtype, device=input.device)
    return out.scatter(-1, indices.flatten(-dims), flat).reshape([*input.shape[:-dims], *size])


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Puts what max_pool1d took back where it was, and 0 elsewhere."""
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Puts what max_pool2d took back where it was, and 0 elsewhere."""
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Puts what max_pool3d took back where it was, and 0 elsewhere."""
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divides by powers of k + alpha times the mean square over neighbouring channels."""
    if input.dim() < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.dim()} dimensions)")
    if input.numel() == 0:
        return input
    squares = input.square()
    padded = _core.pad(squares.movedim(1, -1), [size // 2, (size - 1) // 2])
    means = padded.unfold(-1, size, 1).mean(-1).movedim(-1, 1)
    return input / (means * alpha + k).pow(beta)


# The limit of SELU towards minus infinity, to which these set what they drop.
_LOWEST = -1.7580993408473766


def _alpha(input, p, training, shape, inplace):
    _spatial.check_probability(p)
    if not training or p == 0.0:
        return input
    if p == 1.0:
        return written(input, input * 0.0, inplace)
    keep = rand(shape, dtype=_core.float32, device=input.device) >= p
    scale = 1.0 / math.sqrt((_LOWEST * _LOWEST * p + 1.0) * (1.0 - p))
    out = _core.where(keep, input, _LOWEST) * scale - _LOWEST * p * scale
    return written(input, out, inplace)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Sets elements to SELU's lowest value with probability p, and scales and shifts all to the mean and variance before."""
    return _alpha(input, p, training, tuple(input.shape), inplace)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """alpha_dropout of whole channels."""
    return _alpha(input, p, training, (*input.shape[:2], *(1 for _ in input.shape[2:])), inplace)
