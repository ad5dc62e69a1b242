"""Windows that signals are multiplied with: cosines, and a triangle."""

from __future__ import annotations

import math

from smolder import _core
from smolder._device import on_device, placed
from smolder._typing import Device, DType, Tensor

__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]


@on_device
def _window(name, window_length, periodic, dtype, device, requires_grad, shape):
    """shape(x) for x from 0 to 1, over the window, or over one that is an element longer where it is periodic."""
    dtype = dtype or _core._default_dtype()
    if not dtype.is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {dtype}")
    if window_length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={window_length}")
    if window_length <= 1:
        out = _core.ones((window_length,), dtype=dtype)
    else:
        steps = window_length if periodic else window_length - 1
        out = shape(_core.arange(window_length).to(_core.float64) / steps).to(dtype)
    return out.requires_grad_() if requires_grad else out


def _cosine(x, k):
    return (x * (2 * math.pi * k)).cos()


@placed
def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DType | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """A raised cosine that ends at 0."""
    return _window(
        "hann_window", window_length, periodic, dtype, device, requires_grad, lambda x: 0.5 - 0.5 * _cosine(x, 1)
    )


@placed
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: DType | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """A raised cosine that ends at alpha - beta."""
    return _window(
        "hamming_window", window_length, periodic, dtype, device, requires_grad, lambda x: alpha - beta * _cosine(x, 1)
    )


@placed
def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DType | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Two cosines that end at 0."""

    def shape(x):
        return 0.42 - 0.5 * _cosine(x, 1) + 0.08 * _cosine(x, 2)

    return _window("blackman_window", window_length, periodic, dtype, device, requires_grad, shape)


@placed
def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DType | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """A triangle that ends at 0."""
    return _window(
        "bartlett_window", window_length, periodic, dtype, device, requires_grad, lambda x: 1 - (2 * x - 1).abs()
    )


@placed
def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: DType | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """I0(beta sqrt(1 - x^2)) / I0(beta), for x from -1 to 1."""
    from smolder.special import i0

    def shape(x):
        x = x * 2.0 - 1.0
        return i0((1.0 - x * x).clamp(min=0.0).sqrt() * beta) / i0(x[:1] * 0.0 + beta)

    return _window("kaiser_window", window_length, periodic, dtype, device, requires_grad, shape)
