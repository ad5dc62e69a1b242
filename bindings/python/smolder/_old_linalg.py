"""Linear algebra under the names that it had before there was smolder.linalg, as functions and methods."""

import functools
import inspect
from collections import namedtuple

from smolder import _core, _linalg_factors, linalg
from smolder._autocast import listed
from smolder._out import takes_out
from smolder._tensor import Tensor

__all__ = [
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "det",
    "inverse",
    "logdet",
    "lu",
    "lu_solve",
    "lu_unpack",
    "matrix_exp",
    "matrix_power",
    "norm",
    "orgqr",
    "pinverse",
    "qr",
    "slogdet",
    "svd",
]

_SVD = namedtuple("svd", ("U", "S", "V"))


@takes_out
@listed("inverse")
def inverse(input):
    """Inverses of matrices."""
    return linalg.inv(input)


def det(input):
    """Determinants of matrices."""
    return linalg.det(input)


def logdet(input):
    """Logarithms of determinants; nan where one is negative."""
    sign, log = linalg.slogdet(input)
    return log.masked_fill(sign < 0, float("nan"))


@takes_out
def slogdet(input):
    """Signs and logarithms of the magnitudes of determinants."""
    return linalg.slogdet(input)


@listed("pinverse")
def pinverse(input, rcond=1e-15):
    """Pseudoinverses of matrices."""
    return linalg.pinv(input, rtol=rcond)


@takes_out
@listed("cholesky")
def cholesky(input, upper=False):
    """As linalg.cholesky."""
    return linalg.cholesky(input, upper=upper)


@takes_out
def cholesky_solve(input, input2, upper=False):
    """X with A X = input, from the factor input2 of A that cholesky gives."""
    return _linalg_factors.cholesky_solve(input, input2, upper)


@takes_out
def cholesky_inverse(input, upper=False):
    """Inverses of matrices, from the factors that cholesky gives."""
    return _linalg_factors.cholesky_inverse(input, upper)


def lu(A, pivot=True, get_infos=False):
    """As linalg.lu_factor; with get_infos also what linalg.lu_factor_ex says."""
    factors = linalg.lu_factor_ex(A, pivot=pivot)
    return tuple(factors) if get_infos else tuple(factors[:2])


@takes_out
def lu_solve(input, LU_data, LU_pivots):
    """X with A X = input, from the factors of A that lu gives."""
    return linalg.lu_solve(LU_data, LU_pivots, input)


@takes_out
def lu_unpack(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True):
    """P, L and U of what lu gives."""
    return _linalg_factors.lu_unpack(LU_data, LU_pivots, unpack_data, unpack_pivots)


@takes_out
def matrix_exp(input):
    """As linalg.matrix_exp."""
    return linalg.matrix_exp(input)


@takes_out
def orgqr(input, input2):
    """As linalg.householder_product."""
    return linalg.householder_product(input, input2)


@takes_out
def matrix_power(input, n):
    """As linalg.matrix_power."""
    return linalg.matrix_power(input, n)


@takes_out
def qr(input, some=True):
    """As linalg.qr; without some, with a square Q."""
    return linalg.qr(input, "reduced" if some else "complete")


@takes_out
@listed("svd")
def svd(input, some=True, compute_uv=True):
    """U, S and V with input = U diag(S) V^T; without compute_uv, zeros for U and V."""
    u, s, vh = linalg.svd(input, not some or not compute_uv)
    if not compute_uv:
        return _SVD(u.detach() * 0, s, vh.detach() * 0)
    return _SVD(u, s, vh.transpose(-2, -1))


@takes_out
def norm(input, p="fro", dim=None, keepdim=False, *, dtype=None):
    """A norm of order p along dim, or of all elements: 2 and fro are Euclid's, inf the largest magnitude, 0 counts what
    is not zero; nuc sums the singular values of matrices."""
    if p == "nuc":
        return linalg.matrix_norm(input, p, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    return _core.norm(input if dtype is None else input.to(dtype), p, dim, keepdim)


def _as_method(function):
    """The function with its first argument called self, and without `out`."""
    function = getattr(function, "without_out", function)

    @functools.wraps(function)
    def method(self, *args, **kwargs):
        return function(self, *args, **kwargs)

    _, *others = inspect.signature(function).parameters.values()
    method.__signature__ = inspect.Signature([inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY), *others])
    return method


for _name in [name for name in __all__ if name not in ("norm", "lu_unpack")]:  # the op table has the method norm
    setattr(Tensor, _name, _as_method(globals()[_name]))
