"""The part of smolder.linalg that solves by factors which the caller keeps, and what is made of such solutions.

LU factors are found by cuSOLVER on CUDA and by recursive halving of columns in NumPy on the CPU, which has no LAPACK
routine for them. Everything else is made of triangular solutions, products and singular values.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy

from smolder import _core, _factors
from smolder._autocast import listed
from smolder._batches import whole, with_leading_batches
from smolder._creation import arange, eye, from_numpy, zeros
from smolder._factors import LinAlgError
from smolder._host_function import HostFunction
from smolder._out import takes_out
from smolder._typing import Tensor
from smolder.return_types import shown


@shown
class linalg_lu_factor(NamedTuple):
    """The result of lu_factor()."""

    LU: _core.Tensor
    pivots: _core.Tensor


@shown
class linalg_lu_factor_ex(NamedTuple):
    """The result of lu_factor_ex()."""

    LU: _core.Tensor
    pivots: _core.Tensor
    info: _core.Tensor


@shown
class linalg_lu(NamedTuple):
    """The result of lu()."""

    P: _core.Tensor
    L: _core.Tensor
    U: _core.Tensor


@shown
class linalg_inv_ex(NamedTuple):
    """The result of inv_ex()."""

    inverse: _core.Tensor
    info: _core.Tensor


@shown
class linalg_solve_ex(NamedTuple):
    """The result of solve_ex()."""

    result: _core.Tensor
    info: _core.Tensor


@shown
class linalg_cholesky_ex(NamedTuple):
    """The result of cholesky_ex()."""

    L: _core.Tensor
    info: _core.Tensor


@shown
class linalg_lstsq(NamedTuple):
    """The result of lstsq()."""

    solution: _core.Tensor
    residuals: _core.Tensor
    rank: _core.Tensor
    singular_values: _core.Tensor


def _t(a):
    return a.transpose(-2, -1)


def _h(a):
    """The conjugate transpose."""
    return a.mH if a.dtype.is_complex else a.transpose(-2, -1)


def _size(a):
    """The size by which LAPACK chooses pivots: the magnitude, or for complex numbers the sum of those of both parts."""
    return numpy.abs(a.real) + numpy.abs(a.imag) if a.dtype.kind == "c" else numpy.abs(a)


def _linalg():
    """smolder.linalg, which imports this module."""
    from smolder import linalg

    return linalg


# -- LU factors


def _lu_in_place(a, pivots, first):
    """Factors columns of `a`, an array of matrices, from row `first` on; notes rows exchanged in `pivots`, from 0."""
    rows, columns = a.shape[-2] - first, a.shape[-1]
    if columns == 1 or rows <= 1:
        if rows == 0:
            return
        column = a[:, first:, 0]
        best = _size(column).argmax(-1)
        pivots[:, first] = first + best
        each = numpy.arange(len(a))
        top = column[:, 0].copy()
        column[:, 0] = column[each, best]
        column[each, best] = numpy.where(best == 0, column[:, 0], top)
        pivot = column[:, :1]
        column[:, 1:] /= numpy.where(pivot == 0, 1, pivot)
        return
    half = min(columns, rows) // 2 or 1
    left, right = a[..., :half], a[..., half:]
    _lu_in_place(left, pivots, first)
    _exchange(right, pivots, first, first + half)
    low = numpy.tril(left[:, first : first + half], -1) + numpy.eye(half, dtype=a.dtype)
    right[:, first : first + half] = numpy.linalg.solve(low, right[:, first : first + half])
    right[:, first + half :] -= left[:, first + half :] @ right[:, first : first + half]
    if rows > half:
        _lu_in_place(right, pivots, first + half)
        _exchange(left, pivots, first + half, min(first + rows, first + columns))


def _exchange(a, pivots, begin, end):
    """Exchanges the rows of `a` that pivots from `begin` to `end` name."""
    each = numpy.arange(len(a))
    for k in range(begin, end):
        other = pivots[:, k]
        top = a[:, k].copy()
        a[:, k] = a[each, other]
        a[each, other] = top


def _lu_of_array(a):
    """LU factors of an array of matrices in one, and pivots from 1."""
    flat = numpy.array(a).reshape(math.prod(a.shape[:-2]), *a.shape[-2:])
    count = min(a.shape[-2:])
    pivots = numpy.tile(numpy.arange(count), (len(flat), 1))
    if flat.size:
        if a.shape[-2] >= a.shape[-1]:
            _lu_in_place(flat, pivots, 0)
        else:  # a wide matrix: its square part, then what its rows do to the rest
            square, rest = flat[..., :count], flat[..., count:]
            _lu_in_place(square, pivots, 0)
            _exchange(rest, pivots, 0, count)
            rest[:] = numpy.linalg.solve(numpy.tril(square, -1) + numpy.eye(count, dtype=a.dtype), rest)
    lead = a.shape[:-2]
    return flat.reshape(a.shape), (pivots + 1).astype(numpy.int32).reshape(*lead, count)


@with_leading_batches
def _lu(a):
    """LU in one matrix each, and pivots from 1, as int32."""
    if _factors._by_solver(a):
        factors, pivots = _core._cuda_lu(_t(a).contiguous())
        return _t(factors), pivots.to(_core.int32)
    if (found := _factors._small(_core._small_lu, a)) is not None:
        return found[..., :-1, :].contiguous(), found[..., -1, :].to(_core.int32)
    return tuple(_factors._arrays(_lu_of_array, a))


class _LuFunction(HostFunction):
    """LU in one matrix. Gradient: Murray, Differentiation of the Cholesky decomposition, 2016, for LU."""

    @staticmethod
    def forward(ctx, a):
        lu, pivots = _lu(a)
        ctx.save_for_backward(lu, pivots)
        ctx.mark_non_differentiable(pivots)
        return lu, pivots

    @staticmethod
    def backward(ctx, grad, _):
        lu, pivots = ctx.saved_tensors
        if lu.size(-1) != lu.size(-2):
            raise NotImplementedError("linalg.lu: the gradient is supported for square matrices")
        linalg = _linalg()
        low, up = _unit_lower(lu), _core.triu(lu)
        inner = _core.tril(_h(low) @ _core.tril(grad, -1), -1) + _core.triu(_core.triu(grad) @ _h(up))
        left = linalg.solve_triangular(_h(low), inner, upper=True, unitriangular=True)
        right = linalg.solve_triangular(_h(up), left, upper=False, left=False)
        return _permutation(pivots, lu.size(-2), lu.dtype) @ right


def _unit_lower(lu):
    """L of LU in one."""
    count = min(lu.shape[-2:])
    return _core.tril(lu[..., :count], -1) + eye(lu.size(-2), count, dtype=lu.dtype, device=lu.device)


@with_leading_batches
def _order(pivots, rows):
    """Which row of the matrix each row of L U is, from pivots: an index."""
    swaps = pivots.cpu().numpy().astype(numpy.int64) - 1
    flat = swaps.reshape(math.prod(swaps.shape[:-1]), swaps.shape[-1])
    order = numpy.tile(numpy.arange(rows), (len(flat), 1))
    _exchange(order[..., None], flat, 0, flat.shape[-1])
    return from_numpy(order.reshape(*swaps.shape[:-1], rows)).to(pivots.device)


def _permutation(pivots, rows, dtype):
    """P with A = P L U."""
    order = _order(pivots, rows)
    columns = arange(rows, device=pivots.device)
    return (order.unsqueeze(-2) == columns.unsqueeze(-1)).to(dtype)


def _check_pivot(name, pivot):
    if not pivot:
        raise NotImplementedError(f"{name}: pivot=False is not supported")


def _first_zero(diagonal):
    """The number from 1 of the first element of the diagonal that is zero, else 0."""
    if diagonal.size(-1) == 0:
        return zeros(diagonal.shape[:-1], dtype=_core.int32, device=diagonal.device)
    zero = diagonal == 0
    return _core.where(zero.any(-1), zero.to(_core.int64).argmax(-1) + 1, 0).to(_core.int32)


@takes_out
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> linalg_lu_factor_ex:
    """As lu_factor, with `info`: the number of the first pivot that is zero, from 1; 0 where none is."""
    linalg = _linalg()
    linalg._check("linalg.lu_factor_ex", A, square=False)
    _check_pivot("linalg.lu_factor_ex", pivot)
    lu, pivots = _LuFunction.apply(A)
    info = _first_zero(_core.diagonal(lu.detach(), 0, -2, -1))
    if check_errors:
        _raise_singular(
            "linalg.lu_factor_ex",
            "U[{0},{0}] is zero and using it on lu_solve would result in a division by zero.",
            info,
            A,
        )
    return linalg_lu_factor_ex(lu, pivots, info)


def _raise_singular(name, text, info, a):
    """Raises LinAlgError for the first matrix whose `info` is not 0."""
    _factors._check(info, a, name, text.format)


@takes_out
def lu_factor(A: Tensor, *, pivot: bool = True) -> linalg_lu_factor:
    """L and U in one matrix each (L has ones on its diagonal), and pivots: row i was exchanged with row pivots[i], from 1.

    A: [..., m, n], of floats or complex numbers. Gradients are supported for square matrices.
    """
    return linalg_lu_factor(*lu_factor_ex(A, pivot=pivot)[:2])


@takes_out
def lu(A: Tensor, *, pivot: bool = True) -> linalg_lu:
    """P, L and U with A = P L U: a permutation, unit lower triangular, upper triangular."""
    _check_pivot("linalg.lu", pivot)
    factors, pivots = lu_factor(A)
    return linalg_lu(*lu_unpack(factors, pivots))


def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> linalg_lu:
    """P, L and U of what lu_factor gives; what is not asked for is a tensor without elements."""
    none = zeros((0,), dtype=LU_data.dtype, device=LU_data.device)
    p = _permutation(LU_pivots, LU_data.size(-2), LU_data.dtype) if unpack_pivots else none
    if not unpack_data:
        return linalg_lu(p, none, none)
    return linalg_lu(p, _unit_lower(LU_data), _core.triu(LU_data[..., : min(LU_data.shape[-2:]), :]))


@takes_out
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """X with A X = B (X A = B without left; with A's conjugate transpose where adjoint is set), from the factors of A."""
    linalg = _linalg()
    linalg._check("linalg.lu_solve", LU)
    if not left:
        return _h(lu_solve(LU, pivots, _h(B), adjoint=not adjoint))
    order = _order(pivots, LU.size(-1))
    lead = linalg.broadcast_shapes(tuple(LU.shape[:-2]), tuple(B.shape[:-2]))
    index = order.unsqueeze(-1).expand((*lead, *B.shape[-2:]))
    B = B.expand((*lead, *B.shape[-2:]))
    if adjoint:
        y = linalg.solve_triangular(_h(LU), B, upper=False)
        y = linalg.solve_triangular(_h(LU), y, upper=True, unitriangular=True)
        return _core.scatter(_core.zeros_like(y), -2, index, y)
    y = linalg.solve_triangular(LU, _core.gather(B, -2, index), upper=False, unitriangular=True)
    return linalg.solve_triangular(LU, y, upper=True)


# -- factors that say what failed


def _minor(matrix):
    """The order of the first leading minor of a symmetric array that is not positive-definite."""
    for k in range(1, len(matrix) + 1):
        try:
            numpy.linalg.cholesky(matrix[:k, :k])
        except numpy.linalg.LinAlgError:
            return k
    return 0


@takes_out
@listed("linalg_cholesky_ex")
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> linalg_cholesky_ex:
    """As cholesky, with `info` in place of an error: the order of the first leading minor that is not positive-definite.

    L of such a matrix is of nan.
    """
    linalg = _linalg()
    linalg._check("linalg.cholesky_ex", A)
    try:
        return linalg_cholesky_ex(
            linalg.cholesky(A, upper=upper), zeros(A.shape[:-2], dtype=_core.int32, device=A.device)
        )
    except LinAlgError:
        if check_errors:
            raise
    flat = A.detach().cpu().numpy().reshape(-1, *A.shape[-2:])
    low = numpy.tril(flat)
    orders = numpy.array([_minor(m + numpy.tril(m, -1).conj().T) for m in low], dtype=numpy.int32)
    info = from_numpy(orders.reshape(A.shape[:-2])).to(A.device)
    whole = (info == 0)[..., None, None]
    factors = linalg.cholesky(_core.where(whole, A, linalg._eye_like(A, A.size(-1))), upper=upper)
    return linalg_cholesky_ex(_core.where(whole, factors, float("nan")), info)


@takes_out
@listed("linalg_inv_ex")
def inv_ex(A: Tensor, *, check_errors: bool = False) -> linalg_inv_ex:
    """Inverses, and `info`: 0, or for a singular matrix the number of the pivot that is zero, from 1.

    The inverse of a singular matrix is of infinities.
    """
    linalg = _linalg()
    linalg._check("linalg.inv_ex", A)
    info = lu_factor_ex(A.detach()).info
    if check_errors:
        text = "The diagonal element {} is zero, the inversion could not be completed because the input matrix is singular."
        _raise_singular("linalg.inv_ex", text, info, A)
    whole = (info == 0)[..., None, None]
    inverses = linalg.inv(_core.where(whole, A, linalg._eye_like(A, A.size(-1))))
    return linalg_inv_ex(_core.where(whole, inverses, float("inf")), info)


@takes_out
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> linalg_solve_ex:
    """As solve, with `info`: 0, or for a singular matrix the number of the pivot that is zero, from 1.

    The solution for a singular matrix is of nan.
    """
    linalg = _linalg()
    linalg._check("linalg.solve_ex", A)
    info = lu_factor_ex(A.detach()).info
    if check_errors:
        _raise_singular("linalg.solve_ex", "The solver failed because the input matrix is singular.", info, A)
    whole = info == 0
    x = linalg.solve(_core.where(whole[..., None, None], A, linalg._eye_like(A, A.size(-1))), B, left=left)
    whole = whole.reshape(*whole.shape, *(1,) * (x.dim() - whole.dim()))
    return linalg_solve_ex(_core.where(whole, x, float("nan")), info)


# -- solutions by Cholesky's factors


@listed("cholesky_solve")
def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """X with A X = B, from the factor of A that cholesky gives: L, or L^H with upper. B: [..., n, k], L: [..., n, n]."""
    linalg = _linalg()
    if B.dim() < 2:
        raise RuntimeError(f"b should have at least 2 dimensions, but has {B.dim()} dimensions instead")
    linalg._check("cholesky_solve", L)
    low = _h(L) if upper else L
    return linalg.solve_triangular(_h(low), linalg.solve_triangular(low, B, upper=False), upper=True)


@listed("cholesky_inverse")
def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """The inverses of matrices, from the factors that cholesky gives."""
    linalg = _linalg()
    linalg._check("cholesky_inverse", L)
    return cholesky_solve(linalg._eye_like(L, L.size(-1)).expand(L.shape), L, upper)


# -- least squares


_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


@takes_out
@listed("linalg_lstsq")
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> linalg_lstsq:
    """X that makes the sum of squares of A X - B least; of several such X the smallest.

    A: [..., m, n]. B: [..., m, k], or [..., m] where A has one dimension more. rcond: singular values of at most rcond
    times the largest count as zero; by default the machine's epsilon times the larger of m and n. driver: gels (CUDA's
    default), gelsy (the CPU's), gelsd or gelss; all are computed by singular values here, and say what torch's say:
    `rank` except for gels, `singular_values` for gelsd and gelss. `residuals`: sums of squares where m > n and A has full
    rank, except for gelsy; else a tensor without elements.
    """
    linalg = _linalg()
    name = "linalg.lstsq"
    linalg._check(name, A, square=False)
    if A.dtype != B.dtype:
        raise RuntimeError(
            f"{name}: Expected input and other to have the same dtype, but got input's dtype {A.dtype} and other's dtype {B.dtype}"
        )
    driver = driver or ("gels" if A.is_cuda else "gelsy")
    if driver not in _DRIVERS:
        raise RuntimeError(f"{name}: parameter `driver` should be one of ({', '.join(_DRIVERS)})")
    vector = A.dim() - 1 == B.dim() and A.shape[:-1] == B.shape
    columns = B.unsqueeze(-1) if vector else B
    if A.size(-2) != columns.size(-2):
        raise RuntimeError(f"{name}: input.size(-2) should match other.size({'-1' if vector else '-2'})")
    inverse, s = linalg._Pinv.apply(A, linalg._cut(A, rcond), 0.0, False)
    solution = inverse @ columns
    rank = (s > s.amax(-1, keepdim=True) * linalg._cut(A, rcond)).sum(-1) if A.numel() else s.sum(-1).long()
    none = zeros((0,), dtype=A.dtype.to_real(), device=A.device)
    residuals = none
    if driver != "gelsy" and A.size(-2) > A.size(-1) and (rank == A.size(-1)).all().item():
        residuals = (A @ solution - columns).abs().square().sum(-2)
    return linalg_lstsq(
        solution.squeeze(-1) if vector else solution,
        residuals,
        none.long() if driver == "gels" else rank,
        s if driver in ("gelsd", "gelss") else none,
    )


# -- functions of matrices


_TERMS = 18
_LARGEST = {_core.float32: 3.01, _core.float64: 1.09}  # norms for which 18 terms suffice (Bader, Blanes, Casas, 2019)


@listed("matrix_exp")
def matrix_exp(A: Tensor) -> Tensor:
    """Exponentials of matrices: Taylor's series of A / 2^s, squared s times."""
    linalg = _linalg()
    linalg._check("linalg.matrix_exp", A)
    if A.numel() == 0:
        return A.clone()
    norm = whole(linalg.matrix_norm(A.detach(), 1)).amax().item()
    if not norm < float("inf"):
        return _core.full_like(A, float("nan"))
    halvings = 0
    while norm / 2**halvings > _LARGEST[A.dtype.to_real()]:
        halvings += 1
    x = A / 2**halvings
    unit = linalg._eye_like(A, A.size(-1))
    # In blocks of powers: seven products in place of seventeen.
    powers = [unit, x, x @ x]
    powers.append(powers[2] @ x)
    fourth = powers[2] @ powers[2]
    out = None
    for begin in range(_TERMS // 4 * 4, -1, -4):
        block = sum(p / _factorial(begin + i) for i, p in enumerate(powers) if begin + i <= _TERMS)
        out = block if out is None else out @ fourth + block
    for _ in range(halvings):
        out = out @ out
    return out


@functools.cache
def _factorial(n):
    return float(numpy.prod(numpy.arange(1, n + 1, dtype=numpy.float64))) if n else 1.0


@takes_out
@listed("linalg_cond")
def cond(A: Tensor, p: float | str | None = None) -> Tensor:
    """Condition numbers: the norm of A times that of its inverse; for p None, 2 or -2 the ratio of singular values."""
    linalg = _linalg()
    linalg._check("linalg.cond", A, square=p not in (None, 2, -2) and A.numel() > 0)
    if A.numel() == 0:
        return zeros(A.shape[:-2], dtype=A.dtype.to_real(), device=A.device)
    if p in (None, 2, -2):
        s = linalg.svdvals(A)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    inverse, info = inv_ex(A)
    out = linalg.matrix_norm(A, p) * linalg.matrix_norm(_core.where((info == 0)[..., None, None], inverse, 0.0), p)
    return _core.where(info == 0, out, float("inf"))


@takes_out
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of two or more matrices, in the order that takes the fewest multiplications. The first and the last
    may be vectors."""
    tensors = list(tensors)
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    first, last = tensors[0].dim() == 1, tensors[-1].dim() == 1
    if first:
        tensors[0] = tensors[0].unsqueeze(0)
    if last:
        tensors[-1] = tensors[-1].unsqueeze(1)
    for i, t in enumerate(tensors):
        if t.dim() != 2:
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D but got {t.dim()}D")
    for i, (a, b) in enumerate(itertools.pairwise(tensors)):
        if a.size(1) != b.size(0):
            raise RuntimeError(
                f"multi_dot(): tensors {i} and {i + 1} with shapes {list(a.shape)} and {list(b.shape)} cannot be multiplied"
            )
    out = _in_best_order(tensors)
    if last:
        out = out.squeeze(1)
    return out.squeeze(0) if first else out


def _in_best_order(tensors):
    """The product by the order that dynamic programming finds (Cormen et al., Introduction to Algorithms, 15.2)."""
    sizes = [t.size(0) for t in tensors] + [tensors[-1].size(1)]
    count = len(tensors)
    best = {(i, i): (0, i) for i in range(count)}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            best[i, j] = min(
                (best[i, k][0] + best[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )

    def product(i, j):
        if i == j:
            return tensors[i]
        k = best[i, j][1]
        return product(i, k) @ product(k + 1, j)

    return product(0, count - 1)


def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Powers 0 to N - 1 of the elements of vectors, along a new last dimension; N is their length by default."""
    if x.dim() == 0:
        raise RuntimeError("linalg.vander: Input dim must be greater than or equal to 1.")
    n = x.size(-1) if N is None else N
    if n <= 1 and N is not None:
        raise RuntimeError("N must be greater than 1.")
    ones = _core.ones_like(x).unsqueeze(-1)
    return _core.cat((ones, x.unsqueeze(-1).expand(*x.shape, n - 1).cumprod(-1)), -1)


@takes_out
@listed("linalg_tensorinv")
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of A as a map from its last dimensions to its first `ind`."""
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind'")
    rows = int(numpy.prod(A.shape[:ind]))
    columns = int(numpy.prod(A.shape[ind:]))
    if rows != columns:
        raise RuntimeError(
            f"Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got {columns} != {rows}"
        )
    return _linalg().inv(A.reshape(rows, columns)).reshape(*A.shape[ind:], *A.shape[:ind])


@takes_out
@listed("linalg_tensorsolve")
def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """X with tensordot(A, X, X.dim()) = B; dims of A are moved to its end first."""
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(A.dim() - len(dims), A.dim())))
    shape = A.shape[B.dim() :]
    if int(numpy.prod(shape)) != int(numpy.prod(B.shape)):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), "
            f"but got {int(numpy.prod(shape))} != {int(numpy.prod(B.shape))}"
        )
    return _linalg().solve(A.reshape(B.numel(), -1), B.reshape(-1)).reshape(shape)
