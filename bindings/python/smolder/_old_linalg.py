"""Linear algebra under the names that it had before there was smolder.linalg, as functions and methods."""

import functools
import inspect
from collections import namedtuple

from smolder import _core, linalg
from smolder._autocast import listed
from smolder._tensor import Tensor

__all__ = ["cholesky", "det", "inverse", "logdet", "matrix_power", "norm", "pinverse", "qr", "slogdet", "svd"]

_SVD = namedtuple("svd", ("U", "S", "V"))


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


def slogdet(input):
    """Signs and logarithms of the magnitudes of determinants."""
    return linalg.slogdet(input)


@listed("pinverse")
def pinverse(input, rcond=1e-15):
    """Pseudoinverses of matrices."""
    return linalg.pinv(input, rtol=rcond)


@listed("cholesky")
def cholesky(input, upper=False):
    """As linalg.cholesky."""
    return linalg.cholesky(input, upper=upper)


def matrix_power(input, n):
    """As linalg.matrix_power."""
    return linalg.matrix_power(input, n)


def qr(input, some=True):
    """As linalg.qr; without some, with a square Q."""
    return linalg.qr(input, "reduced" if some else "complete")


@listed("svd")
def svd(input, some=True, compute_uv=True):
    """U, S and V with input = U diag(S) V^T; without compute_uv, zeros for U and V."""
    u, s, vh = linalg.svd(input, not some or not compute_uv)
    if not compute_uv:
        return _SVD(u.detach() * 0, s, vh.detach() * 0)
    return _SVD(u, s, vh.transpose(-2, -1))


def norm(input, p="fro", dim=None, keepdim=False, *, dtype=None):
    """A norm of order p along dim, or of all elements: 2 and fro are Euclid's, inf the largest magnitude, 0 counts what
    is not zero; nuc sums the singular values of matrices."""
    if p == "nuc":
        return linalg.matrix_norm(input, p, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    return _core.norm(input if dtype is None else input.to(dtype), p, dim, keepdim)


def _as_method(function):
    """The function with its first argument called self."""

    @functools.wraps(function)
    def method(self, *args, **kwargs):
        return function(self, *args, **kwargs)

    _, *others = inspect.signature(function).parameters.values()
    method.__signature__ = inspect.Signature([inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY), *others])
    return method


for _name in [name for name in __all__ if name != "norm"]:  # which the op table has as a method
    setattr(Tensor, _name, _as_method(globals()[_name]))
