"""Singular values of matrices of low rank, from products with few random vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smolder import _core
from smolder._call_errors import name_what_is_no_tensor
from smolder._creation import randn

if TYPE_CHECKING:
    from smolder._typing import Tensor

__all__ = ["pca_lowrank", "svd_lowrank"]


def _range_of(a: Tensor, q: int, niter: int) -> Tensor:
    """Orthonormal columns that span about what the matrix makes of q random vectors, as Halko et al. find them."""
    from smolder.linalg import qr

    out = a @ randn(*a.shape[:-2], a.size(-1), q, dtype=a.dtype, device=a.device)
    basis = qr(out).Q
    for _ in range(niter):
        basis = qr(a.mT @ basis).Q
        basis = qr(a @ basis).Q
    return basis


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """U, S and V of about the best approximation of rank q to A, or to A - M: A is near U diag(S) V^T."""
    from smolder.linalg import svd

    a = A if M is None else A - M
    q = 6 if q is None else q
    transposed = a.size(-2) < a.size(-1)
    if transposed:
        a = a.mT
    basis = _range_of(a, q, niter)
    u, s, vh = svd(basis.mT @ a, full_matrices=False)
    u, v = basis @ u, vh.mT
    return (v, s, u) if transposed else (u, s, v)


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """The same of a matrix of samples in rows, less the mean of each column unless center is false."""
    q = min(6, *A.shape[-2:]) if q is None else q
    if not 0 <= q <= min(A.shape[-2:]):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(A.shape[-2:])}")
    if not niter >= 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - _core.mean(A, (-2,), keepdim=True) if center else A, q, niter)


name_what_is_no_tensor(globals())
