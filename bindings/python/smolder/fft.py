"""torch.fft: discrete Fourier transforms along any axes, with gradients; and what orders frequencies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smolder import _core
from smolder._autocast import listed
from smolder._call_errors import as_int, name_what_is_no_tensor
from smolder._creation import arange
from smolder._names import listing as _listing
from smolder._out import takes_out
from smolder._typing import Device, DType, Tensor

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip
__dir__ = _listing(__name__)

# what the ops of transforms multiply sums by: 0 nothing, 1 one over the root of their number, 2 one over their number
_FORWARD = {None: 0, "backward": 0, "ortho": 1, "forward": 2}
_BACKWARD = {None: 2, "backward": 2, "ortho": 1, "forward": 0}


def _scale(norm, forward):
    try:
        return (_FORWARD if forward else _BACKWARD)[norm]
    except KeyError:
        raise RuntimeError(f'Invalid normalization mode: "{norm}"') from None


def _floating(name, x, real=False):
    """x in a dtype that is transformed; `real`: complex numbers are refused."""
    if x.dtype.is_complex:
        if real:
            kind = "ComplexFloat" if x.dtype == _core.complex64 else "ComplexDouble"
            raise RuntimeError(f"{name} expects a real input tensor, but got {kind}")
        return x
    if x.dtype in (_core.float16, _core.bfloat16):
        raise RuntimeError(f"Unsupported dtype {'Half' if x.dtype == _core.float16 else 'BFloat16'}")
    return x if x.dtype.is_floating_point else x.to(_core._default_dtype())


def _complex(name, x):
    x = _floating(name, x)
    return x if x.dtype.is_complex else _core.complex(x, _core.zeros_like(x))


def _axes(x, s, dim):
    """Axes, none negative, and how many elements along each."""
    rank = x.dim()
    if s is None and dim == (-1,) and rank and x.size(-1):  # as most are
        return (rank - 1,), [x.size(-1)]
    if dim is None:
        dim = range(rank) if s is None else range(rank - len(s), rank)
        if s is not None and len(s) > rank:
            raise RuntimeError(f"Got shape with {len(s)} values but input tensor only has {rank} dimensions.")
    dims = [as_int("fft", "dim", d) for d in ([dim] if isinstance(dim, int) else dim)]
    for d in dims:
        if not -max(rank, 1) <= d < max(rank, 1):
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-max(rank, 1)}, {max(rank, 1) - 1}], but got {d})"
            )
    axes = [d + rank if d < 0 else d for d in dims]
    if len(set(axes)) != len(axes):
        raise RuntimeError("FFT dims must be unique")
    if s is not None and len(s) != len(axes):
        raise RuntimeError(
            "When given, dim and shape arguments must have the same length, but got dim of size "
            f"{len(axes)} and shape of size {len(s)}"
        )
    sizes = [x.size(a) if s is None or s[i] == -1 else s[i] for i, a in enumerate(axes)]
    for n in sizes:
        if n < 1:
            raise RuntimeError(f"Invalid number of data points ({n}) specified")
    return tuple(axes), sizes


def _resized(x, axes, sizes):
    """x cut, or filled up with zeros, to these sizes."""
    for axis, n in zip(axes, sizes, strict=True):
        have = x.size(axis)
        if n < have:
            x = x.narrow(axis, 0, n)
        elif n > have:
            rest = list(x.shape)
            rest[axis] = n - have
            x = _core.cat([x, x.new_zeros(rest)], axis)
    return x


@listed("fft")
def _of_complex(name, x, s, dim, norm, forward):
    x = _complex(name, x)
    axes, sizes = _axes(x, s, dim)
    scale = _scale(norm, forward)
    x = x if s is None else _resized(x, axes, sizes)
    return _core.view_as_complex(_core.fft_c2c(_core.view_as_real(x), axes, scale, forward)) if axes else x


@listed("fft")
def _of_real(name, x, s, dim, norm, forward=True):
    """The half of the frequencies along the last axis; the others are whole."""
    x = _floating(name, x, real=True)
    axes, sizes = _axes(x, s, dim)
    if not axes:
        raise RuntimeError(f"{name} must transform at least one axis")
    x = x if s is None else _resized(x, axes, sizes)
    return _core.view_as_complex(_core.fft_r2c(x, axes, _scale(norm, forward), forward))


@listed("fft")
def _to_real(name, x, s, dim, norm, forward=False):
    """Real numbers of half of the frequencies along the last axis, of which 2 (n - 1) are made unless told."""
    x = _complex(name, x)
    axes, sizes = _axes(x, s, dim)
    if not axes:
        raise RuntimeError(f"{name} must transform at least one axis")
    if s is None or s[-1] == -1:
        sizes[-1] = 2 * (x.size(axes[-1]) - 1)
    if sizes[-1] < 1:
        raise RuntimeError(f"Invalid number of data points ({sizes[-1]}) specified")
    x = x if s is None else _resized(x, axes, [*sizes[:-1], sizes[-1] // 2 + 1])
    return _core.fft_c2r(_core.view_as_real(x), axes, _scale(norm, forward), sizes[-1], forward)


@takes_out
def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Discrete Fourier transform along an axis.

    Args:
        n: how many points are taken: the input is cut, or filled up with zeros, to that.
        norm: "backward" (the inverse has 1/n), "ortho" (both have 1/sqrt(n)) or "forward".
    """
    return _of_complex("fft", input, None if n is None else (n,), (dim,), norm, True)


@takes_out
def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Inverse discrete Fourier transform along an axis.

    Args:
        n: how many points are taken: the input is cut, or filled up with zeros, to that.
        norm: "backward" (the inverse has 1/n), "ortho" (both have 1/sqrt(n)) or "forward".
    """
    return _of_complex("ifft", input, None if n is None else (n,), (dim,), norm, False)


@takes_out
def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Transform of real numbers: the frequencies up to the middle along an axis.

    Args:
        n: how many points are taken: the input is cut, or filled up with zeros, to that.
        norm: "backward" (the inverse has 1/n), "ortho" (both have 1/sqrt(n)) or "forward".
    """
    return _of_real("rfft", input, None if n is None else (n,), (dim,), norm)


@takes_out
def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Inverse of rfft: real numbers along an axis.

    Args:
        n: how many points are taken: the input is cut, or filled up with zeros, to that.
        norm: "backward" (the inverse has 1/n), "ortho" (both have 1/sqrt(n)) or "forward".
    """
    return _to_real("irfft", input, None if n is None else (n,), (dim,), norm)


@takes_out
def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Transform of what is the half of a Hermitian signal: real numbers along an axis.

    Args:
        n: how many points are taken: the input is cut, or filled up with zeros, to that.
        norm: "backward" (the inverse has 1/n), "ortho" (both have 1/sqrt(n)) or "forward".
    """
    return _to_real("hfft", input, None if n is None else (n,), (dim,), norm, True)


@takes_out
def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Inverse of hfft: half of a Hermitian signal along an axis.

    Args:
        n: how many points are taken: the input is cut, or filled up with zeros, to that.
        norm: "backward" (the inverse has 1/n), "ortho" (both have 1/sqrt(n)) or "forward".
    """
    return _of_real("ihfft", input, None if n is None else (n,), (dim,), norm, False)


@takes_out
def fft2(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None
) -> Tensor:
    """Discrete Fourier transform along two axes, the last ones unless told; see fft."""
    return _of_complex("fft2", input, s, dim, norm, True)


@takes_out
def fftn(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None
) -> Tensor:
    """Discrete Fourier transform along several axes, all unless told; see fft."""
    return _of_complex("fftn", input, s, dim, norm, True)


@takes_out
def ifft2(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None
) -> Tensor:
    """Inverse discrete Fourier transform along two axes, the last ones unless told; see ifft."""
    return _of_complex("ifft2", input, s, dim, norm, False)


@takes_out
def ifftn(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None
) -> Tensor:
    """Inverse discrete Fourier transform along several axes, all unless told; see ifft."""
    return _of_complex("ifftn", input, s, dim, norm, False)


@takes_out
def rfft2(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None
) -> Tensor:
    """Transform of real numbers: the frequencies up to the middle along two axes, the last ones unless told; see rfft."""
    return _of_real("rfft2", input, s, dim, norm)


@takes_out
def rfftn(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None
) -> Tensor:
    """Transform of real numbers: the frequencies up to the middle along several axes, all unless told; see rfft."""
    return _of_real("rfftn", input, s, dim, norm)


@takes_out
def irfft2(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None
) -> Tensor:
    """Inverse of rfft: real numbers along two axes, the last ones unless told; see irfft."""
    return _to_real("irfft2", input, s, dim, norm)


@takes_out
def irfftn(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None
) -> Tensor:
    """Inverse of rfft: real numbers along several axes, all unless told; see irfft."""
    return _to_real("irfftn", input, s, dim, norm)


@takes_out
def hfft2(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None
) -> Tensor:
    """Transform of what is the half of a Hermitian signal: real numbers along two axes, the last ones unless told; see hfft."""
    return _to_real("hfft2", input, s, dim, norm, True)


@takes_out
def hfftn(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None
) -> Tensor:
    """Transform of what is the half of a Hermitian signal: real numbers along several axes, all unless told; see hfft."""
    return _to_real("hfftn", input, s, dim, norm, True)


@takes_out
def ihfft2(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None
) -> Tensor:
    """Inverse of hfft: half of a Hermitian signal along two axes, the last ones unless told; see ihfft."""
    return _of_real("ihfft2", input, s, dim, norm, False)


@takes_out
def ihfftn(
    input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None
) -> Tensor:
    """Inverse of hfft: half of a Hermitian signal along several axes, all unless told; see ihfft."""
    return _of_real("ihfftn", input, s, dim, norm, False)


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
    k = arange(n, dtype=dtype or _core._default_dtype(), device=device)
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
    k = arange(n // 2 + 1, dtype=dtype or _core._default_dtype(), device=device)
    return (k * (1.0 / (n * d))).requires_grad_(requires_grad)


def _check(layout):
    from smolder._layouts import strided

    if layout not in (None, strided):
        raise NotImplementedError("fft: layouts other than strided are not supported")


name_what_is_no_tensor(globals())
