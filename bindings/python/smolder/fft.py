"""Of torch.fft what needs no complex numbers; the transforms raise, each naming itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smolder import _core
from smolder._creation import arange
from smolder._names import listing as _listing
from smolder._out import takes_out
from smolder.cuda._refused import refused

if TYPE_CHECKING:
    from typing import Any

    from smolder._typing import Device, DType, Tensor

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]
__dir__ = _listing(__name__)

_TRANSFORMS = [
    "fft",
    "fft2",
    "fftn",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftn",
]


def __getattr__(name: str) -> Any:
    if name in _TRANSFORMS:
        return refused(f"fft.{name}", "there are no complex numbers")
    from smolder._missing import missing

    raise missing(__name__, name)


def _rolled(input, dim, shift):
    dims = range(input.dim()) if dim is None else (dim,) if isinstance(dim, int) else dim
    return _core.roll(input, [shift(input.size(d)) for d in dims], list(dims))


def fftshift(input: Tensor, dim: int | None = None) -> Tensor:
    """The frequency 0, which comes first, in the middle."""
    return _rolled(input, dim, lambda n: n // 2)


def ifftshift(input: Tensor, dim: int | None = None) -> Tensor:
    """The inverse of fftshift."""
    return _rolled(input, dim, lambda n: (n + 1) // 2)


@takes_out
def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Frequencies of a transform of n samples that are d apart."""
    _check(layout)
    k = arange(n, dtype=dtype or _core.float32, device=device)
    return (_core.where(k < (n + 1) // 2, k, k - n) * (1.0 / (n * d))).requires_grad_(requires_grad)


@takes_out
def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Frequencies of a transform of n real samples that are d apart."""
    _check(layout)
    k = arange(n // 2 + 1, dtype=dtype or _core.float32, device=device)
    return (k * (1.0 / (n * d))).requires_grad_(requires_grad)


def _check(layout):
    from smolder._layouts import strided

    if layout not in (None, strided):
        raise NotImplementedError("fft: layouts other than strided are not supported")
