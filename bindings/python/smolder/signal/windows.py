"""Windows that signals are multiplied with. sym=True makes those of filters, False those of periodic signals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from smolder import _core
from smolder._creation import arange
from smolder._device import on_device
from smolder._layouts import strided
from smolder._names import listing as _listing
from smolder._typing import Device, DType, Tensor

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann",
    "kaiser", "nuttall",
]  # fmt: skip
__dir__ = _listing(__name__)


@on_device
def _window(
    name: str,
    m: int,
    sym: bool,
    dtype: Any,
    layout: Any,
    device: Any,
    requires_grad: bool,
    shape: Callable[..., Tensor],
) -> Tensor:
    """shape(n, last) of the places n of m elements, in float64; `last` is the place at which a window of them ends."""
    dtype = dtype or _core._default_dtype()
    if m < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={m}")
    if layout not in (None, strided):
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if dtype not in (_core.float32, _core.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    n = arange(m).double()
    out = n + 1.0 if m <= 1 else shape(n, m - 1 if sym else m)
    out = out.to(dtype)
    return out.requires_grad_() if requires_grad else out


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-|n - center| / tau); a window that is symmetric has its center in the middle."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")

    def shape(n: Tensor, last: int) -> Tensor:
        middle = last / 2 if center is None else center
        return (-(n - middle).abs() / tau).exp()

    return _window("exponential", M, sym, dtype, layout, device, requires_grad, shape)


def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Half a period of a sine."""

    def shape(n: Tensor, last: int) -> Tensor:
        return ((n + 0.5) * (math.pi / (last + 1))).sin()

    return _window("cosine", M, sym, dtype, layout, device, requires_grad, shape)


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """A Gaussian around the middle, of standard deviation std."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")

    def shape(n: Tensor, last: int) -> Tensor:
        return (-(((n - last / 2) / std) ** 2) / 2).exp()

    return _window("gaussian", M, sym, dtype, layout, device, requires_grad, shape)


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """I0(beta sqrt(1 - x^2)) / I0(beta), for x from -1 to 1."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")

    def shape(n: Tensor, last: int) -> Tensor:
        from smolder.special import i0

        x = n * (2.0 / last) - 1.0
        return i0((1.0 - x * x).clamp(min=0.0).sqrt() * beta) / i0(n[:1] * 0.0 + beta)

    return _window("kaiser", M, sym, dtype, layout, device, requires_grad, shape)


def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """A triangle that ends at 0."""

    def shape(n: Tensor, last: int) -> Tensor:
        return 1.0 - (n * (2.0 / last) - 1.0).abs()

    return _window("bartlett", M, sym, dtype, layout, device, requires_grad, shape)


def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """A sum of cosines of 0, 1, 2, ... periods with alternating signs, and the factors a."""
    factors = list(a)
    if not factors:
        raise ValueError("Coefficients cannot be empty")

    def shape(n: Tensor, last: int) -> Tensor:
        return sum(((-1) ** k * f) * (n * (2 * math.pi * k / last)).cos() for k, f in enumerate(factors))

    return _window("general_cosine", M, sym, dtype, layout, device, requires_grad, shape)


def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """general_cosine with the factors alpha and 1 - alpha."""
    return general_cosine(
        M, a=[alpha, 1.0 - alpha], sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def hamming(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """A raised cosine that ends at 0.08."""
    return general_cosine(
        M, a=[0.54, 0.46], sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def hann(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """A raised cosine that ends at 0."""
    return general_cosine(
        M, a=[0.5, 0.5], sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def blackman(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Two cosines that end at 0."""
    return general_cosine(
        M, a=[0.42, 0.5, 0.08], sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def nuttall(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Three cosines that end near 0."""
    return general_cosine(
        M,
        a=[0.3635819, 0.4891775, 0.1365995, 0.0106411],
        sym=sym,
        dtype=dtype,
        layout=layout,
        device=device,
        requires_grad=requires_grad,
    )
