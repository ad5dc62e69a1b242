"""Which of a batch of matrices are triangular, symmetric, definite."""

from __future__ import annotations

from collections.abc import Callable

from smolder import _core, linalg
from smolder._creation import eye
from smolder._types import finfo
from smolder._typing import Tensor


def is_lower(x: Tensor) -> Tensor:
    """Whether nothing but zeros is above the diagonal."""
    return (x.tril() == x).all(-1).all(-1)


def has_positive_diagonal(x: Tensor) -> Tensor:
    """Whether all of the diagonal is positive."""
    return (x.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


def has_unit_rows(x: Tensor) -> Tensor:
    """Whether the rows' lengths are 1, but for what roundings of as many elements make."""
    tolerance = finfo(x.dtype).eps * x.size(-1) * 10
    return ((x.detach() ** 2).sum(-1).sqrt() - 1).abs().le(tolerance).all(-1)


def is_square(x: Tensor) -> Tensor:
    """Whether rows are as long as columns."""
    return x.new_full(tuple(x.shape[:-2]), x.shape[-1] == x.shape[-2], dtype=_core.bool)


def is_symmetric(x: Tensor) -> Tensor:
    """Whether the matrix is its transpose, up to 1e-6."""
    return _core.isclose(x, x.mT, rtol=1e-5, atol=1e-6).all(-1).all(-1)


def is_semidefinite(x: Tensor) -> Tensor:
    """Whether no eigenvalue is negative, of what is known to be symmetric."""
    return (linalg.eigvalsh(x) >= 0).all(-1)


def is_definite(x: Tensor) -> Tensor:
    """Whether all eigenvalues are positive, of what is known to be symmetric: whether it has a Cholesky factor."""
    return linalg.cholesky_ex(x).info == 0


def and_of(fine: Tensor, x: Tensor, check: Callable[[Tensor], Tensor]) -> Tensor:
    """Which matrices are fine and pass a check; it sees identities in place of those that are not fine or not finite."""
    x = x.detach()
    if x.shape[-1] != x.shape[-2]:
        return fine
    fine = _core.logical_and(fine, _core.isfinite(x).all(-1).all(-1))
    unit = eye(x.shape[-1], dtype=x.dtype, device=x.device)
    return _core.logical_and(fine, check(_core.where(fine[..., None, None], x, unit)))
