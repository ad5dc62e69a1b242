"""Linear algebra under the names that it had before there was smolder.linalg, as functions and methods."""

from __future__ import annotations

import functools
import inspect
from typing import Any, NamedTuple

from smolder import _core, _linalg_factors, linalg, return_types
from smolder._autocast import listed
from smolder._call_errors import name_what_is_no_tensor
from smolder._functions import broadcast_shapes
from smolder._out import takes_out
from smolder._reflectors import geqrf, ormqr
from smolder._tensor import Tensor, kind_name
from smolder._typing import DType

__all__ = [
    "cholesky", "cholesky_inverse", "cholesky_solve", "det", "geqrf", "inverse", "logdet", "lu", "lu_solve",
    "lu_unpack", "matrix_exp", "matrix_power", "norm", "orgqr", "ormqr", "pinverse", "qr", "slogdet", "svd",
    "triangular_solve",
]  # fmt: skip


class _SVD(NamedTuple):
    U: _core.Tensor
    S: _core.Tensor
    V: _core.Tensor


_SVD.__name__ = "svd"


@takes_out
@listed("inverse")
def inverse(input: Tensor) -> Tensor:
    """Inverses of matrices."""
    return linalg.inv(input)


def det(input: Tensor) -> Tensor:
    """Determinants of matrices."""
    return linalg.det(input)


def logdet(input: Tensor) -> Tensor:
    """Logarithms of determinants; of real ones nan where one is negative."""
    sign, log = linalg.slogdet(input)
    if input.dtype.is_complex:
        return sign.log() + log
    return log.masked_fill(sign < 0, float("nan"))


@takes_out
def slogdet(input: Tensor) -> linalg.linalg_slogdet:
    """Signs and logarithms of the magnitudes of determinants."""
    return linalg.slogdet(input)


@listed("pinverse")
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """Pseudoinverses of matrices."""
    return linalg.pinv(input, rtol=rcond)


@takes_out
@listed("cholesky")
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """As linalg.cholesky."""
    return linalg.cholesky(input, upper=upper)


@takes_out
def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """X with A X = input, from the factor input2 of A that cholesky gives."""
    return _linalg_factors.cholesky_solve(input, input2, upper)


@takes_out
def cholesky_inverse(input: Tensor, upper: bool = False) -> Tensor:
    """Inverses of matrices, from the factors that cholesky gives."""
    return _linalg_factors.cholesky_inverse(input, upper)


def lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """As linalg.lu_factor; with get_infos also what linalg.lu_factor_ex says."""
    factors = linalg.lu_factor_ex(A, pivot=pivot)
    return tuple(factors) if get_infos else tuple(factors[:2])


@takes_out
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """X with A X = input, from the factors of A that lu gives."""
    return linalg.lu_solve(LU_data, LU_pivots, input)


@takes_out
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> _linalg_factors.linalg_lu:
    """P, L and U of what lu gives."""
    return _linalg_factors.lu_unpack(LU_data, LU_pivots, unpack_data, unpack_pivots)


@takes_out
def matrix_exp(input: Tensor) -> Tensor:
    """As linalg.matrix_exp."""
    return linalg.matrix_exp(input)


@takes_out
def orgqr(input: Tensor, input2: Tensor) -> Tensor:
    """As linalg.householder_product."""
    return linalg.householder_product(input, input2)


@takes_out
def matrix_power(input: Tensor, n: int) -> Tensor:
    """As linalg.matrix_power."""
    return linalg.matrix_power(input, n)


@takes_out
def qr(input: Tensor, some: bool = True) -> tuple[Tensor, Tensor]:
    """As linalg.qr; without some, with a square Q."""
    return linalg.qr(input, "reduced" if some else "complete")


@takes_out
@listed("svd")
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> _SVD:
    """U, S and V with input = U diag(S) V^T; without compute_uv, zeros for U and V."""
    u, s, vh = linalg.svd(input, not some or not compute_uv)
    if not compute_uv:
        return _SVD(u.detach() * 0, s, vh.detach() * 0)
    return _SVD(u, s, vh.transpose(-2, -1))


@takes_out
def norm(
    input: Tensor, p: float = "fro", dim: int | None = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """A norm of order p along dim, or of all elements: 2 and fro are Euclid's, inf the largest magnitude, 0 counts what
    is not zero; nuc sums the singular values of matrices."""
    if p == "nuc":
        return linalg.matrix_norm(input, p, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    return _core.norm(input if dtype is None else input.to(dtype), p, dim, keepdim)


@takes_out
def triangular_solve(
    input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:
    """X with A X = input, and a copy of A, whose upper triangle is read, or the lower one; with A^T where `transpose`."""
    name = "torch.triangular_solve"
    for argument, x in (("b", input), ("A", A)):
        if x.dim() < 2:
            raise RuntimeError(
                f"{name}: Expected {argument} to have at least 2 dimensions, but it has {x.dim()} dimensions instead"
            )
    rows, columns = A.shape[-2:]
    if rows != columns:
        raise RuntimeError(f"A must be batches of square matrices, but they are {rows} by {columns} matrices")
    if rows != input.size(-2):
        raise RuntimeError(
            f"Incompatible matrix sizes for triangular_solve: each A matrix is {rows} by {rows} but each b matrix is "
            f"{input.size(-2)} by {input.size(-1)}"
        )
    if input.dtype != A.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {kind_name(input.dtype)} and A of type "
            f"{kind_name(A.dtype)} instead."
        )
    lead = broadcast_shapes(tuple(input.shape[:-2]), tuple(A.shape[:-2]))
    A = A.expand((*lead, rows, rows)).clone()
    of = A.mT if transpose else A
    x = linalg.solve_triangular(of, input, upper=upper != transpose, unitriangular=unitriangular)
    return return_types.triangular_solve(x, A)


def _as_method(function):
    """The function with its first argument called self, and without `out`."""
    function = getattr(function, "without_out", function)

    @functools.wraps(function)
    def method(self, *args, **kwargs):
        return function(self, *args, **kwargs)

    _, *others = inspect.signature(function).parameters.values()
    method.__signature__ = inspect.Signature([inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY), *others])
    return method


name_what_is_no_tensor(globals())
for _name in [name for name in __all__ if name not in ("norm", "lu_unpack")]:  # the op table has the method norm
    setattr(Tensor, _name, _as_method(globals()[_name]))
