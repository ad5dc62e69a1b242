"""Covariances, and matrices of powers: functions of samples that are no rows of the op table."""

from __future__ import annotations

from typing import Any

from smolder import _core
from smolder._call_errors import name_what_is_no_tensor
from smolder._tensor import Tensor
from smolder._warn import warn

__all__ = ["corrcoef", "cov", "vander"]


def cov(input: Tensor, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
    """The covariances of variables in rows, whose samples are in columns.

    Arguments:
        input (Tensor): of one or two dimensions; one is one variable
        correction (int): what is taken from the number of samples
        fweights (Tensor): integers, how often each sample counts; read, so the step ends
        aweights (Tensor): how much each sample counts; read, so the step ends
    """
    _check_rows("cov", input)
    if input.dtype == _core.bool:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    rows = input.reshape(1, -1) if input.dim() < 2 else input
    n, weights, left = rows.size(1), None, None
    if fweights is not None:
        _check_weights("fweights", fweights, n, not fweights.dtype.is_floating_point, "integral")
        weights = fweights
    if aweights is not None:
        _check_weights("aweights", aweights, n, aweights.dtype.is_floating_point, "floating point")
        weights = aweights if weights is None else weights * aweights
    total = n if weights is None else weights.sum()
    if weights is not None and not bool(total != 0):
        raise RuntimeError("cov(): weights sum to zero, can't be normalized")
    mean = (rows if weights is None else rows * weights).sum(1) / total
    if aweights is not None and correction:
        left = total - correction * (weights * aweights).sum() / total
    else:
        left = total - correction
    if bool(left <= 0):
        warn(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations.",
            UserWarning,
        )
        left = 0
    rows = rows - mean.unsqueeze(1)
    return (rows @ (rows if weights is None else rows * weights).t().conj() / left).squeeze()


def _check_rows(name: str, input: Tensor) -> None:
    if input.dim() > 2:
        raise RuntimeError(
            f"{name}(): expected input to have two or fewer dimensions but got an input with {input.dim()} dimensions"
        )


def _check_weights(name: str, weights: Tensor, n: int, is_of_kind: bool, kind: str) -> None:
    if weights.dim() > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with {weights.dim()} dimensions"
        )
    if not is_of_kind:
        raise RuntimeError(f"cov(): expected {name} to have {kind} dtype but got {name} with {weights.dtype} dtype")
    if weights.numel() != n:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input but got "
            f"{weights.numel()} != {n}"
        )
    if bool((weights < 0).any()):
        raise RuntimeError(f"cov(): {name} cannot be negative")


def corrcoef(input: Tensor) -> Tensor:
    """Pearson's correlations of variables in rows, whose samples are in columns."""
    _check_rows("corrcoef", input)
    c = cov(input)
    if c.dim() == 0:
        return c / c
    deviation = (c.real if c.dtype.is_complex else c).diagonal().sqrt()
    out = c / deviation.unsqueeze(1) / deviation
    if c.dtype.is_complex:
        return _core.complex(out.real.clamp(-1, 1), out.imag.clamp(-1, 1))
    return out.clamp(-1, 1)


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of each element, as rows: from N - 1 down to 0, or up to it."""
    from smolder.linalg import vander as powers

    if x.dim() != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    n = x.size(0) if N is None else N
    if n < 0:
        raise RuntimeError("N must be non-negative.")
    if not (x.dtype.is_floating_point or x.dtype.is_complex):
        x = x.to(_core.int64)
    out = _core.ones((x.size(0), n), dtype=x.dtype) if n < 2 else powers(x, N=n)
    return out if increasing else out.flip(-1)


def _cov(self, *, correction=1, fweights=None, aweights=None):
    return cov(self, correction=correction, fweights=fweights, aweights=aweights)


def _corrcoef(self):
    return corrcoef(self)


_cov.__name__, _cov.__doc__, _corrcoef.__name__, _corrcoef.__doc__ = "cov", cov.__doc__, "corrcoef", corrcoef.__doc__
Tensor.cov, Tensor.corrcoef = _cov, _corrcoef


name_what_is_no_tensor(globals())
