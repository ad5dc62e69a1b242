"""Linear algebra: norms, made of ops, and factors and solutions, which LAPACK or cuSOLVER find.

What these do reads its matrices, which ends the step. Gradients are made of these functions and of ops, so that
gradients of gradients follow.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from smolder import _batches, _core, _factors
from smolder._autocast import listed
from smolder._call_errors import as_int, name_what_is_no_tensor
from smolder._creation import eye, zeros
from smolder._factors import LinAlgError
from smolder._functions import broadcast_shapes
from smolder._host_function import HostFunction
from smolder._ldl import ldl_factor, ldl_factor_ex, ldl_solve
from smolder._linalg_factors import (
    _h,
    _t,
    cholesky_ex,
    cond,
    inv_ex,
    lstsq,
    lu,
    lu_factor,
    lu_factor_ex,
    lu_solve,
    matrix_exp,
    multi_dot,
    solve_ex,
    tensorinv,
    tensorsolve,
    vander,
)
from smolder._names import listing as _listing
from smolder._out import takes_out
from smolder._reflectors import householder_product
from smolder._tensor import kind_name
from smolder._typing import DType, Tensor
from smolder.return_types import shown

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]
__dir__ = _listing(__name__)


@shown
class linalg_qr(NamedTuple):
    """The result of qr()."""

    Q: _core.Tensor
    R: _core.Tensor


@shown
class linalg_svd(NamedTuple):
    """The result of svd()."""

    U: _core.Tensor
    S: _core.Tensor
    Vh: _core.Tensor


@shown
class linalg_eigh(NamedTuple):
    """The result of eigh()."""

    eigenvalues: _core.Tensor
    eigenvectors: _core.Tensor


@shown
class linalg_eig(NamedTuple):
    """Result of eig()."""

    eigenvalues: _core.Tensor
    eigenvectors: _core.Tensor


@shown
class linalg_slogdet(NamedTuple):
    """The result of slogdet()."""

    sign: _core.Tensor
    logabsdet: _core.Tensor


def _check(name, a, square=True):
    if not isinstance(a, _core.Tensor):
        raise TypeError(f"{name}(): argument 'A' (position 1) must be Tensor, not {type(a).__name__}")
    if a.dim() < 2:
        raise RuntimeError(
            f"{name}: The input tensor A must have at least 2 dimensions, but has {a.dim()} dimensions instead"
        )
    if square and a.size(-1) != a.size(-2):
        raise RuntimeError(
            f"{name}: A must be batches of square matrices, but they are {a.size(-2)} by {a.size(-1)} matrices"
        )
    if not (a.dtype.is_floating_point or a.dtype.is_complex):
        raise NotImplementedError(
            f"{name}: Expected a floating point or complex tensor as input. Got {kind_name(a.dtype)}"
        )
    if a.dtype.itemsize < 4:
        raise NotImplementedError(f"{name}: Low precision dtypes not supported. Got {kind_name(a.dtype)}")


def _eye_like(a, n):
    return eye(n, dtype=a.dtype, device=a.device)


def _real(a):
    return a.real if a.dtype.is_complex else a


def _needs_gradient(a):
    """Whether values alone do not do: gradients are made of the vectors."""
    return _core.is_grad_enabled() and _batches.has_history(a)


# -- solutions


class _Inverse(HostFunction):
    @staticmethod
    def forward(ctx, a):
        out = _factors.inverse(a)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, grad):
        (out,) = ctx.saved_tensors
        return -(_h(out) @ grad @ _h(out))


@takes_out
@listed("linalg_inv")
def inv(A: Tensor) -> Tensor:
    """Inverses of matrices."""
    _check("linalg.inv", A)
    return _Inverse.apply(A)


class _Solve(HostFunction):
    @staticmethod
    def forward(ctx, a, b):
        x = _factors.solution(a, b)
        ctx.save_for_backward(a, x)
        return x

    @staticmethod
    def backward(ctx, grad):
        a, x = ctx.saved_tensors
        of_b = _Solve.apply(_h(a), grad)
        return -(of_b @ _h(x)), of_b


def _batched(name, a, b):
    """Both with the leading dimensions that they broadcast to."""
    if a.device != b.device:
        raise RuntimeError(
            f"{name}: Expected all tensors to be on the same device, but found at least two devices, {a.device} and "
            f"{b.device}!"
        )
    if a.dim() == 2 == b.dim():
        return a, b
    lead = broadcast_shapes(tuple(a.shape[:-2]), tuple(b.shape[:-2]))
    return a.expand((*lead, *a.shape[-2:])), b.expand((*lead, *b.shape[-2:]))


@takes_out
@listed("linalg_solve")
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X with A X = B, or X A = B without left. B is matrices, or vectors of A's leading dimensions."""
    _check("linalg.solve", A)
    if A.dtype != B.dtype:
        raise RuntimeError(f"linalg.solve: Expected A and B to have the same dtype, but found {A.dtype} and {B.dtype}")
    if B.dim() == 1 or (A.dim() - 1 == B.dim() and B.shape == A.shape[:-1]):
        if not left:
            raise RuntimeError(
                "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False."
            )
        return solve(A, B.unsqueeze(-1)).squeeze(-1)
    if not left:
        return _t(solve(_t(A), _t(B)))
    if A.size(-1) != B.size(-2):
        raise RuntimeError(
            f"linalg.solve: Incompatible shapes of A and B for the equation AX = B ({A.size(-2)}x{A.size(-1)} and "
            f"{B.size(-2)}x{B.size(-1)})"
        )
    return _Solve.apply(*_batched("linalg.solve", A, B))


class _SolveTriangular(HostFunction):
    @staticmethod
    def forward(ctx, a, b, upper, left, ones):
        x = _factors.triangular_solution(a, b, upper, left, ones)
        ctx.save_for_backward(a, x)
        ctx.how = upper, left, ones
        return x

    @staticmethod
    def backward(ctx, grad):
        a, x = ctx.saved_tensors
        upper, left, ones = ctx.how
        of_b = _SolveTriangular.apply(_h(a), grad, not upper, left, ones)
        of_a = -(of_b @ _h(x)) if left else -(_h(x) @ of_b)
        return _core.triu(of_a, int(ones)) if upper else _core.tril(of_a, -int(ones)), of_b, None, None, None


@takes_out
def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """As solve with the triangle of A above its diagonal, or below it; unitriangular takes ones for the diagonal.

    A zero in the diagonal gives infinities, as in torch.
    """
    name = "linalg.solve_triangular"
    _check(name, A)
    if A.dtype != B.dtype:
        raise RuntimeError(
            f"{name}: Expected A and B to have the same dtype, but found {A.dtype} and {B.dtype} instead"
        )
    if B.dim() < 2:
        raise RuntimeError(f"{name}: The input tensor B must have at least 2 dimensions.")
    if A.size(-1) != B.size(-2 if left else -1):
        equation = "AX = B" if left else "XA = B"
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {equation} ({A.size(-2)}x{A.size(-1)} and "
            f"{B.size(-2)}x{B.size(-1)})"
        )
    return _SolveTriangular.apply(*_batched(name, A, B), bool(upper), bool(left), bool(unitriangular))


@takes_out
def matrix_power(A: Tensor, n: int) -> Tensor:
    """A times itself, n times; of its inverse where n is negative."""
    _check("linalg.matrix_power", A)
    n = as_int("linalg_matrix_power", "n", n)
    if n < 0:
        return matrix_power(inv(A), -n)
    given, out = A, None
    while n:
        if n & 1:
            out = A if out is None else out @ A
        A, n = (A @ A, n >> 1) if n > 1 else (A, 0)
    if out is None:
        return _eye_like(A, A.size(-1)).expand(A.shape).clone()
    return out.clone() if out is given else out


# -- determinants


class _Det(HostFunction):
    @staticmethod
    def forward(ctx, a):
        out = _factors.determinant(a)
        ctx.save_for_backward(a, out)
        return out

    @staticmethod
    def backward(ctx, grad):
        a, out = ctx.saved_tensors
        if _batches.whole(out == 0).any().item():
            raise NotImplementedError("linalg.det: the gradient for a singular matrix is not supported")
        return (grad * out.conj())[..., None, None] * _h(inv(a))


@takes_out
def det(A: Tensor) -> Tensor:
    """Determinants of matrices."""
    _check("linalg.det", A)
    return _Det.apply(A)


class _LogDet(HostFunction):
    @staticmethod
    def forward(ctx, a):
        sign, log = _factors.log_determinant(a)
        ctx.save_for_backward(a, sign)
        if not a.dtype.is_complex:
            ctx.mark_non_differentiable(sign)
        return sign, log

    @staticmethod
    def backward(ctx, of_sign, grad):
        a, sign = ctx.saved_tensors
        grad = _core.zeros_like(_real(sign)) if grad is None else grad
        if a.dtype.is_complex and of_sign is not None:  # the sign turns as the imaginary part of the logarithm grows
            grad = _core.complex(grad, -(of_sign.conj() * sign).imag)
        return grad[..., None, None] * _h(inv(a))


@takes_out
def slogdet(A: Tensor) -> linalg_slogdet:
    """Signs and logarithms of the magnitudes of determinants."""
    _check("linalg.slogdet", A)
    return linalg_slogdet(*_LogDet.apply(A))


# -- factors


class _Cholesky(HostFunction):
    @staticmethod
    def forward(ctx, a):
        out = _factors.cholesky(a)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, grad):
        (low,) = ctx.saved_tensors
        inner = _core.tril(_h(low) @ _core.tril(grad))
        inner = inner - inner * _eye_like(low, low.size(-1)) * 0.5
        out = solve_triangular(_h(low), solve_triangular(low, inner, upper=False, left=False), upper=True)
        return (out + _h(out)) * 0.5


@takes_out
@listed("linalg_cholesky")
def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """L with A = L L^H, of Hermitian positive-definite matrices, whose lower triangles are read; or L^H with upper."""
    _check("linalg.cholesky", A)
    low = _Cholesky.apply(A)
    return _h(low) if upper else low


class _Qr(HostFunction):
    @staticmethod
    def forward(ctx, a, mode):
        q, r = _factors.qr(a, mode)
        ctx.save_for_backward(q, r)
        ctx.mode, ctx.wide = mode, a.size(-2) < a.size(-1)
        return q, r

    @staticmethod
    def backward(ctx, of_q, of_r):
        if ctx.wide or (ctx.mode == "complete" and ctx.saved_tensors[1].size(-2) != ctx.saved_tensors[1].size(-1)):
            raise NotImplementedError(
                "linalg.qr: the gradient is supported where Q has as many columns as A, and A no more than rows"
            )
        q, r = ctx.saved_tensors
        of_q = _core.zeros_like(q) if of_q is None else of_q
        of_r = _core.zeros_like(r) if of_r is None else of_r
        m = r @ _h(of_r) - _h(of_q) @ q
        lower = _core.tril(m, -1)
        symmetric = lower + _h(lower) + _real(m) * _real(_eye_like(m, m.size(-1)))  # R has a real diagonal
        return _h(solve_triangular(r, _h(of_q + q @ symmetric), upper=True)), None


@takes_out
@listed("linalg_qr")
def qr(A: Tensor, mode: str = "reduced") -> linalg_qr:
    """Q, whose columns are orthonormal, and R, upper triangular, with A = Q R. mode is reduced, complete or r."""
    _check("linalg.qr", A, square=False)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    if mode == "r":
        (r,) = _factors.qr(A.detach(), "r")
        if _needs_gradient(A):
            raise NotImplementedError("linalg.qr: the gradient for mode 'r' is not supported; use 'reduced'")
        return linalg_qr(zeros((0,), dtype=A.dtype, device=A.device), r)
    return linalg_qr(*_Qr.apply(A, mode))


def _differences_inverted(x):
    """1 / (x_j - x_i) at i, j, and 0 on the diagonal."""
    eye = _eye_like(x, x.size(-1))
    return (1 - eye) / (x.unsqueeze(-2) - x.unsqueeze(-1) + eye)


class _Svd(HostFunction):
    @staticmethod
    def forward(ctx, a, full, driver):
        u, s, vh = _factors.svd(a, full, driver)
        ctx.save_for_backward(u, s, vh)
        ctx.full = full and a.size(-2) != a.size(-1)
        return u, s, vh

    @staticmethod
    def backward(ctx, of_u, of_s, of_vh):
        u, s, vh = ctx.saved_tensors
        if ctx.full and not (of_u is None and of_vh is None):
            raise NotImplementedError("linalg.svd: the gradient with full_matrices=True is not supported")
        k = s.size(-1)
        u, v = u[..., :k], _h(vh)[..., :k]
        inner = _core.diag_embed(_core.zeros_like(s) if of_s is None else of_s)
        apart = _differences_inverted(s * s)
        rest = 0
        if of_u is not None:
            m = _h(u) @ of_u
            inner = inner + (apart * (m - _h(m))) * s.unsqueeze(-2)
            if u.size(-2) > k:
                rest = rest + ((of_u - u @ m) / s.unsqueeze(-2)) @ _h(v)
        if of_vh is not None:
            of_v = _h(of_vh)
            m = _h(v) @ of_v
            inner = inner + s.unsqueeze(-1) * (apart * (m - _h(m)))
            if v.size(-2) > k:
                rest = rest + (u / s.unsqueeze(-2)) @ _h(of_v - v @ m)
        if u.dtype.is_complex and of_u is not None and of_vh is not None:
            # Vectors turn together by any phase, which no loss may depend on; what is left is that of one of them.
            turned = _core.diagonal(_h(u) @ of_u[..., :k], 0, -2, -1).imag / s
            inner = inner + _core.diag_embed(_core.complex(_core.zeros_like(turned), turned))
        return u @ inner @ _h(v) + rest, None, None


def _check_svd(A, driver):
    _check("linalg.svd", A, square=False)
    if driver is not None and not A.is_cuda:
        raise RuntimeError(
            "linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
        )
    if driver not in (None, "gesvd", "gesvdj"):
        raise NotImplementedError(f"linalg.svd: driver '{driver}' is not supported; use None, gesvd or gesvdj")


@takes_out
@listed("linalg_svd")
def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> linalg_svd:
    """U, S and Vh with A = U diag(S) Vh, S in descending order.

    On CUDA driver may be gesvdj, Jacobi's method, or gesvd, QR iterations; None is the former, and the latter where that
    does not converge.
    """
    _check_svd(A, driver)
    return linalg_svd(*_Svd.apply(A, bool(full_matrices), driver))


@takes_out
@listed("linalg_svdvals")
def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values of matrices, in descending order."""
    if _needs_gradient(A):
        return svd(A, False, driver=driver).S
    _check_svd(A, driver)
    return _factors.svd(A, False, driver, vectors=False)[1]


class _EighFunction(HostFunction):
    @staticmethod
    def forward(ctx, a, uplo):
        w, v = _factors.eigh(a, uplo == "L")
        ctx.save_for_backward(w, v)
        return w, v

    @staticmethod
    def backward(ctx, of_w, of_v):
        w, v = ctx.saved_tensors
        inner = _core.diag_embed(_core.zeros_like(w) if of_w is None else of_w)
        if of_v is not None:
            inner = inner + (_h(v) @ of_v) * _differences_inverted(w)
        out = v @ inner @ _h(v)
        return (out + _h(out)) * 0.5, None


def _check_eigh(A, UPLO):
    _check("linalg.eigh", A)
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")


@takes_out
@listed("linalg_eigh")
def eigh(A: Tensor, UPLO: str = "L") -> linalg_eigh:
    """Eigenvalues, in ascending order, and eigenvectors of Hermitian matrices, whose triangle UPLO is read."""
    _check_eigh(A, UPLO)
    return linalg_eigh(*_EighFunction.apply(A, UPLO.upper()))


@takes_out
@listed("linalg_eigvalsh")
def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """Eigenvalues of Hermitian matrices, in ascending order."""
    if _needs_gradient(A):
        return eigh(A, UPLO).eigenvalues
    _check_eigh(A, UPLO)
    return _factors.eigh(A, UPLO.upper() == "L", vectors=False)[0]


class _Eig(HostFunction):
    """Vectors are of length 1, and any phase; the gradient is that of losses that do not depend on the phase."""

    @staticmethod
    def forward(ctx, a):
        w, v = _factors.eig(a)
        ctx.save_for_backward(w, v)
        ctx.of_real = not a.dtype.is_complex
        return w, v

    @staticmethod
    def backward(ctx, of_w, of_v):
        w, v = ctx.saved_tensors
        inner = _core.zeros_like(v) if of_w is None else _core.diag_embed(of_w)
        if of_v is not None:
            m = _h(v) @ of_v
            along = _core.real(_core.diagonal(m, 0, -2, -1)).unsqueeze(-2)  # what would change lengths
            inner = inner + (m - (_h(v) @ v) * along) * _differences_inverted(w).conj()
        out = solve(_h(v), inner @ _h(v))
        return out.real if ctx.of_real else out


@takes_out
@listed("linalg_eig")
def eig(input: Tensor) -> linalg_eig:
    """Eigenvalues and eigenvectors of matrices, which are complex; in no order.

    Through LAPACK, on the host. Gradients are those of losses that do not depend on the phase of the vectors, which is
    arbitrary, and need eigenvalues that differ.
    """
    _check("linalg.eig", input)
    return linalg_eig(*_Eig.apply(input))


@takes_out
@listed("linalg_eigvals")
def eigvals(input: Tensor) -> Tensor:
    """Eigenvalues of matrices, which are complex; in no order."""
    _check("linalg.eigvals", input)
    return eig(input).eigenvalues if _needs_gradient(input) else _factors.eig(input, vectors=False)[0]


def _pinv(a, rtol, atol, hermitian):
    """The pseudoinverse, and the singular values, or magnitudes of eigenvalues, that it is made of."""
    if a.numel() == 0:
        none = zeros((*a.shape[:-2], min(a.shape[-2:])), dtype=a.dtype.to_real(), device=a.device)
        return zeros((*a.shape[:-2], a.size(-1), a.size(-2)), dtype=a.dtype, device=a.device), none
    if hermitian:
        s, v = _factors.eigh(a, True)
        uh = _h(v)
    else:
        u, s, vh = _factors.svd(a, False)
        uh, v = _h(u), _h(vh)
    size = s.abs()
    least = (rtol * size.amax(-1, keepdim=True)).clamp(min=atol)
    inverted = _core.where(size > least, 1 / s, 0.0)
    return (v * inverted.unsqueeze(-2)) @ uh, size


class _Pinv(HostFunction):
    @staticmethod
    def forward(ctx, a, rtol, atol, hermitian):
        out, size = _pinv(a, rtol, atol, hermitian)
        ctx.save_for_backward(a, out)
        ctx.mark_non_differentiable(size)
        return out, size

    @staticmethod
    def backward(ctx, grad, _):
        a, p = ctx.saved_tensors
        g = _h(grad)
        of_rows, of_columns = _eye_like(a, a.size(-2)) - a @ p, _eye_like(a, a.size(-1)) - p @ a
        return -(_h(p) @ grad @ _h(p)) + of_rows @ g @ p @ _h(p) + _h(p) @ p @ g @ of_columns, None, None, None


def _cut(A, rtol, atol=None):
    """The share of the largest singular value below which one counts as zero; none by default beside an atol."""
    if rtol is None and atol is not None:
        return 0.0
    if rtol is None:
        epsilon = 2.0**-52 if A.dtype.to_real() == _core.float64 else 2.0**-23
        return max(A.size(-1), A.size(-2)) * epsilon
    return rtol.item() if isinstance(rtol, _core.Tensor) else float(rtol)


@takes_out
def pinv(
    A: Tensor,
    rcond: float | None = None,
    hermitian: bool = False,
    *,
    atol: float | None = None,
    rtol: float | None = None,
) -> Tensor:
    """Pseudoinverses of matrices: singular values of at most atol, or rtol (or rcond) times the largest, count as zero."""
    rtol = rcond if rtol is None else rtol
    _check("linalg.pinv", A, square=hermitian and A.numel() > 0)
    least = 0.0 if atol is None else atol.item() if isinstance(atol, _core.Tensor) else float(atol)
    return _Pinv.apply(A, _cut(A, rtol, atol), least, hermitian)[0]


@takes_out
@listed("linalg_matrix_rank")
def matrix_rank(
    A: Tensor,
    tol: float | None = None,
    hermitian: bool = False,
    *,
    atol: float | None = None,
    rtol: float | None = None,
) -> Tensor:
    """How many singular values of matrices are above rtol times the largest, and above atol (or tol)."""
    atol = tol if atol is None else atol
    _check("linalg.matrix_rank", A, square=hermitian and A.numel() > 0)
    if A.numel() == 0:
        return zeros(A.shape[:-2], dtype=_core.int64, device=A.device)
    s = eigvalsh(A.detach()).abs() if hermitian else svdvals(A.detach())
    least = s.amax(-1, keepdim=True) * _cut(A, rtol, atol)
    return (s > (least if atol is None else least.clamp(min=atol))).sum(-1)


# -- norms and products


def _in_dtype(x, dtype, name):
    if not (x.dtype.is_floating_point or x.dtype.is_complex) and dtype is None:
        raise NotImplementedError(
            f"{name}: Expected a floating point or complex tensor as input. Got {kind_name(x.dtype)}"
        )
    if x.dtype.is_complex and dtype is not None and not dtype.is_complex:
        raise RuntimeError(f"{name}: dtype should be complex for complex inputs, but got {kind_name(dtype)}")
    return x if dtype is None else x.to(dtype)


@takes_out
@listed("linalg_vector_norm")
def vector_norm(
    x: Tensor,
    ord: float = 2,
    dim: int | tuple[int, ...] | None = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """Norms of order ord of vectors along dim, or of all elements."""
    x = _in_dtype(x, dtype, "linalg.vector_norm")
    if isinstance(ord, str):
        raise TypeError("linalg.vector_norm: ord must be a number; matrix_norm takes names")
    if dim is None:
        out = x.reshape(-1).norm(ord, 0)
        return out.reshape((1,) * x.dim()) if keepdim else out
    return x.norm(ord, [dim] if isinstance(dim, int) else list(dim), keepdim)


@takes_out
@listed("linalg_matrix_norm")
def matrix_norm(
    A: Tensor,
    ord: float | str = "fro",
    dim: int | tuple[int, ...] | None = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """Norms of matrices: fro, nuc, or of order 1, 2 or inf, or the least of such values with a minus."""
    A = _in_dtype(A, dtype, "linalg.matrix_norm")
    if len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {tuple(dim)}")
    if A.dim() < 2:
        raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
    rows, columns = (d % A.dim() for d in dim)
    if rows == columns:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    if ord == "fro":
        return A.norm(2, [rows, columns], keepdim)
    if ord in (1, -1, math.inf, -math.inf):
        summed, among = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = A.abs().sum(summed, keepdim=True)
        if ord > 0 and sums.size(among) == 0:  # no row or column: torch's is 0
            sums = sums.sum(among, keepdim=True)
        out = sums.amax(among, keepdim=True) if ord > 0 else sums.amin(among, keepdim=True)
    elif ord in ("nuc", 2, -2):
        s = svdvals(A.movedim((rows, columns), (-2, -1)))
        out = s.sum(-1) if ord == "nuc" else s.amax(-1) if ord > 0 else s.amin(-1)
        for axis in sorted((rows, columns)):
            out = out.unsqueeze(axis)
    else:
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    return out if keepdim else out.squeeze((rows, columns))


@takes_out
def norm(
    A: Tensor,
    ord: float | str | None = None,
    dim: int | tuple[int, ...] | None = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """A norm of vectors or matrices: of the elements along dim where ord is None, else as vector_norm or matrix_norm."""
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    if dim is None:
        if A.dim() not in (1, 2):
            raise RuntimeError(
                f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.dim()}D."
            )
        dim = tuple(range(A.dim()))
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if isinstance(ord, str) or len(dims) == 2:
        return matrix_norm(A, ord, dims, keepdim, dtype=dtype)
    return vector_norm(A, ord, dims, keepdim, dtype=dtype)


@takes_out
@listed("linalg_vecdot")
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Sums of the products of vectors along dim, of which the first are taken conjugate."""
    return (x.conj() * y).sum(dim)


@takes_out
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """As smolder.matmul."""
    return _core.matmul(input, other)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Diagonals of matrices."""
    return _core.diagonal(A, offset, dim1, dim2)


@takes_out
def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Vector products along dim, which has three elements."""
    return _core.cross(input, other, dim)


name_what_is_no_tensor(globals())
