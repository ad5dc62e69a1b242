"""Functions over images and signals: convolutions, pools, normalisation, dropout of channels."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

from smolder import _core
from smolder._core import (
    adaptive_avg_pool1d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    batch_norm,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    group_norm,
    instance_norm,
)
from smolder._typing import Ints, Tensor
from smolder.nn._activations import written

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "avg_pool1d", "avg_pool2d", "avg_pool3d", "batch_norm",
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "dropout1d", "dropout2d",
    "dropout3d", "group_norm", "instance_norm", "max_pool1d", "max_pool1d_with_indices", "max_pool2d",
    "max_pool2d_with_indices", "max_pool3d", "max_pool3d_with_indices", "rms_norm",
]  # fmt: skip


Indexed: TypeAlias = Callable[..., tuple[Tensor, Tensor]]


def _numbers(value, dims):
    """One number a dimension, out of one for all."""
    return tuple(value) if isinstance(value, tuple | list) else (value,) * dims


def with_indices(pool: Callable[..., Any]) -> Indexed:
    """The pool with return_indices, whatever is given for it, as a function of torch's name for that."""
    at = list(inspect.signature(pool).parameters).index("return_indices")

    @functools.wraps(pool)
    def call(*args, **given):
        if len(args) > at:
            return pool(*args[:at], True, *args[at + 1 :], **given)
        return pool(*args, **{**given, "return_indices": True})

    call.__name__ = call.__qualname__ = f"{pool.__name__}_with_indices"
    call.__doc__ = f"{pool.__name__} with return_indices, whatever is given for it."
    return call


def max_pool1d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Largest element of each window of signals; with return_indices also where it was."""
    pool = _core.max_pool1d_with_indices if return_indices else _core.max_pool1d
    return pool(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Largest element of each window of images; with return_indices also its number in the plane."""
    pool = _core.max_pool2d_with_indices if return_indices else _core.max_pool2d
    return pool(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Largest element of each window of volumes; with return_indices also its number in the volume."""
    pool = _core.max_pool3d_with_indices if return_indices else _core.max_pool3d
    return pool(input, kernel_size, stride, padding, dilation, ceil_mode)


max_pool1d_with_indices: Indexed = with_indices(max_pool1d)
max_pool2d_with_indices: Indexed = with_indices(max_pool2d)
max_pool3d_with_indices: Indexed = with_indices(max_pool3d)


def _adaptive_size(name, input, output_size, dims):
    """Sizes out of one for all; None is that of the input."""
    sizes = _numbers(output_size, dims)
    if len(sizes) != dims:
        raise RuntimeError(f"{name}: output_size must be {dims}")
    if all(size is not None for size in sizes):
        return tuple(sizes)
    if input.dim() < dims:
        raise ValueError(f"Input dimension should be at least {len(sizes) + 1}")
    return tuple(input.size(i - dims) if size is None else size for i, size in enumerate(sizes))


def adaptive_avg_pool2d(input: Tensor, output_size: Ints) -> Tensor:
    """Means of so many windows that cover images evenly; None keeps a size."""
    return _core.adaptive_avg_pool2d(input, _adaptive_size("adaptive_avg_pool2d", input, output_size, 2))


def adaptive_avg_pool3d(input: Tensor, output_size: Ints) -> Tensor:
    """Means of so many windows that cover volumes evenly; None keeps a size."""
    return _core.adaptive_avg_pool3d(input, _adaptive_size("adaptive_avg_pool3d", input, output_size, 3))


def adaptive_max_pool1d(input: Tensor, output_size: Ints, return_indices: bool = False) -> Any:
    """Largest elements of so many windows that cover signals evenly; with return_indices also where they were."""
    out, indices = _core.adaptive_max_pool1d(input, _adaptive_size("adaptive_max_pool1d", input, output_size, 1))
    return (out, indices) if return_indices else out


def adaptive_max_pool2d(input: Tensor, output_size: Ints, return_indices: bool = False) -> Any:
    """Largest elements of so many windows that cover images evenly; None keeps a size."""
    out, indices = _core.adaptive_max_pool2d(input, _adaptive_size("adaptive_max_pool2d", input, output_size, 2))
    return (out, indices) if return_indices else out


def adaptive_max_pool3d(input: Tensor, output_size: Ints, return_indices: bool = False) -> Any:
    """Largest elements of so many windows that cover volumes evenly; None keeps a size."""
    out, indices = _core.adaptive_max_pool3d(input, _adaptive_size("adaptive_max_pool3d", input, output_size, 3))
    return (out, indices) if return_indices else out


adaptive_max_pool1d_with_indices: Indexed = with_indices(adaptive_max_pool1d)
adaptive_max_pool2d_with_indices: Indexed = with_indices(adaptive_max_pool2d)
adaptive_max_pool3d_with_indices: Indexed = with_indices(adaptive_max_pool3d)


def check_probability(p: float) -> None:
    """Raises ValueError unless p is a probability."""
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _channels_dropped(input, p, training, inplace, single):
    """`single`: it is one sample, without a dimension of samples."""
    if p == 0 or not training:
        return input  # which may be a leaf: nothing is written
    out = _core.feature_dropout(input.unsqueeze(0) if single else input, p, training)
    return written(input, out.squeeze(0) if single else out, inplace)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes channels of signals [N, C, L] or [C, L] with probability p and scales the rest by 1 / (1 - p)."""
    check_probability(p)
    dims = input.dim()
    if dims not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {dims}D input. "
            "Note that dropout1d exists to provide channel-wise dropout on inputs with 1 spatial "
            "dimension, a channel dimension, and an optional batch dimension "
            "(i.e. 2D or 3D inputs)."
        )
    return _channels_dropped(input, p, training, inplace, dims == 2)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes channels of images [N, C, H, W] with probability p and scales the rest by 1 / (1 - p)."""
    check_probability(p)
    dims = input.dim()
    if dims not in (3, 4):
        warnings.warn(
            f"dropout2d: Received a {dims}-D input to dropout2d, which is deprecated "
            "and will result in an error in a future release. To retain the behavior "
            "and silence this warning, please use dropout instead. Note that dropout2d "
            "exists to provide channel-wise dropout on inputs with 2 spatial dimensions, "
            "a channel dimension, and an optional batch dimension (i.e. 3D or 4D inputs).",
            stacklevel=2,
        )
    if dims == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise "
            "1D dropout behavior is desired - input is interpreted as shape (N, C, L), where C "
            "is the channel dim. This behavior will change in a future release to interpret the "
            "input as one without a batch dimension, i.e. shape (C, H, W). To maintain the 1D "
            "channel-wise dropout behavior, please switch to using dropout1d instead.",
            stacklevel=2,
        )
    return _channels_dropped(input, p, training, inplace, False)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes channels of volumes [N, C, D, H, W] or [C, D, H, W] with probability p and scales the rest by 1 / (1 - p)."""
    check_probability(p)
    dims = input.dim()
    if dims not in (4, 5):
        warnings.warn(
            f"dropout3d: Received a {dims}-D input to dropout3d, which is deprecated "
            "and will result in an error in a future release. To retain the behavior "
            "and silence this warning, please use dropout instead. Note that dropout3d "
            "exists to provide channel-wise dropout on inputs with 3 spatial dimensions, "
            "a channel dimension, and an optional batch dimension (i.e. 4D or 5D inputs).",
            stacklevel=2,
        )
    return _channels_dropped(input, p, training, inplace, dims == 4)


def rms_norm(input: Tensor, normalized_shape: Ints, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """The last dimensions divided by the root of their mean square, then scaled."""
    return _core.rms_norm(input, tuple(normalized_shape), weight, eps)
