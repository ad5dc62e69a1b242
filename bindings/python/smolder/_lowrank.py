"""Singular values of matrices of low rank, and some eigenvalues of large ones, from products with few vectors."""

from __future__ import annotations

from typing import Any

from smolder import _core
from smolder._call_errors import name_what_is_no_tensor
from smolder._modes import no_grad
from smolder._random_tensors import randn
from smolder._types import finfo
from smolder._typing import Tensor

__all__ = ["lobpcg", "pca_lowrank", "svd_lowrank"]


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


def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) eigenvalues of symmetric matrices A, or of A x = e B x, and their vectors.

    Knyazev's method (2001) from n vectors, X or random ones, with iK for about A's inverse, until residuals are below tol
    or for niter steps. A and B may be sparse. Vectors are orthogonal by B at each step, whichever method is named.
    """
    if A.dim() < 2 or A.size(-1) != A.size(-2):
        raise AssertionError(f"A must be square, got shape {A.shape}")
    if not A.is_floating_point():
        raise ValueError(f"lobpcg: expected A to have a floating-point dtype, got {A.dtype}")
    if method not in (None, "basic", "ortho"):
        raise ValueError(f"lobpcg: expected method to be 'basic' or 'ortho', got {method!r}")
    refused = {"tracker": tracker, "ortho_iparams": ortho_iparams, "ortho_fparams": ortho_fparams}
    for name, given in (refused | {"ortho_bparams": ortho_bparams}).items():
        if given is not None:
            raise NotImplementedError(f"lobpcg: {name} is not supported: it is of the inside of torch's own method")
    if _core.is_grad_enabled() and any(t is not None and t.requires_grad for t in (A, B)):
        raise NotImplementedError("lobpcg: gradients are not supported; use linalg.eigh, or detach() the matrices")
    k = (1 if X is None else X.size(-1)) if k is None else k
    n = (k if n is None else n) if X is None else X.size(-1)
    if A.size(-1) < 3 * n:
        raise ValueError(
            f"LPBPCG algorithm is not applicable when the number of A rows (={A.size(-1)}) is smaller than 3 x the number "
            f"of requested eigenpairs (={n})"
        )
    if X is None:
        X = randn(*A.shape[:-2], A.size(-1), n, dtype=A.dtype, device=A.device)
    tol = finfo(A.dtype).eps ** 0.5 if tol is None else tol
    steps, largest = 1000 if niter is None else niter, largest is None or largest
    with no_grad():
        if A.dim() == 2:
            return _some_eigenpairs(A, B, X, iK, k, steps, tol, largest)
        every = [
            [None if t is None else t.reshape(-1, *t.shape[-2:])[i] for t in (A, B, X, iK)]
            for i in range(A.shape[:-2].numel())
        ]
        found = [_some_eigenpairs(*one, k, steps, tol, largest) for one in every]
        return tuple(
            _core.stack(list(each)).reshape(*A.shape[:-2], *each[0].shape) for each in zip(*found, strict=True)
        )


def _some_eigenpairs(a, b, x, inverse, k, steps, tol, largest):
    from smolder.linalg import eigh

    def by_b(v):
        return v if b is None else b @ v

    def orthogonal(v):
        for _ in range(2):  # the second time rids it of what rounding left
            sizes, turned = eigh(v.mT @ by_b(v))
            there = sizes > sizes.max() * (finfo(v.dtype).eps * len(sizes))
            v = v @ (turned[:, there] / sizes[there].sqrt())
        return v

    x = orthogonal(x)
    count = x.size(-1)
    size_a = (a @ x).norm() / x.norm()
    size_b = by_b(x).norm() / x.norm()
    for step in range(steps + 1):
        values, turned = eigh(x.mT @ (a @ x))
        order = values.argsort(descending=largest)[:count]
        values, chosen = values[order], turned[:, order]
        kept = x @ chosen
        # Where the vectors went from the last ones, which are the first columns.
        before = x[:, count:] @ chosen[count:] if x.size(-1) > count else None
        rest = a @ kept - by_b(kept) * values
        error = rest.norm(2, 0) / (kept.norm(2, 0) * (size_a + values.abs() * size_b))
        if step == steps or (error[:k] < tol).all():
            return values[:k], kept[:, :k]
        rest = rest if inverse is None else inverse @ rest
        rest = rest / rest.norm(2, 0).clamp(min=finfo(rest.dtype).tiny)
        x = _core.cat([kept, _beside(kept, rest, before, by_b, orthogonal)], 1)


def _beside(kept, rest, before, by_b, orthogonal):
    """An orthogonal basis of what the residuals and the last directions add to the vectors."""
    more = rest if before is None else _core.cat([rest, before / before.norm(2, 0).clamp(min=1e-30)], 1)
    for _ in range(2):
        more = more - kept @ (kept.mT @ by_b(more))
    more = orthogonal(more)
    return more - kept @ (kept.mT @ by_b(more))


name_what_is_no_tensor(globals())
