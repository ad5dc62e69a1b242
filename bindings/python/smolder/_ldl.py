"""L D L^T factors of symmetric matrices, by Bunch and Kaufman's pivots, and solutions by them.

On the host, in NumPy: factors and pivots are those of LAPACK's sytrf and hetrf for lower triangles ("Some stable methods
for calculating inertia and solving symmetric linear systems", 1977).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy

from smolder import _core, _factors
from smolder._batches import with_leading_batches
from smolder._creation import from_numpy
from smolder._functions import broadcast_shapes
from smolder._out import takes_out
from smolder._tensor import kind_name
from smolder._typing import Tensor
from smolder.autograd.function import Function
from smolder.return_types import shown

_ALPHA = (1 + math.sqrt(17)) / 8  # how much smaller a pivot may be than its column


@shown
class linalg_ldl_factor(NamedTuple):
    """The result of ldl_factor()."""

    LD: _core.Tensor
    pivots: _core.Tensor


@shown
class linalg_ldl_factor_ex(NamedTuple):
    """The result of ldl_factor_ex()."""

    LD: _core.Tensor
    pivots: _core.Tensor
    info: _core.Tensor


def _size(x):
    """The size by which LAPACK chooses pivots: the magnitude, or for complex numbers the sum of those of both parts."""
    return numpy.abs(x.real) + numpy.abs(x.imag) if numpy.iscomplexobj(x) else numpy.abs(x)


def _choose(a, k, hermitian):
    """The row to exchange with, and whether the pivot is of two rows; (k, 0) where the column is zero."""

    def diagonal(i):
        return abs(a[i, i].real) if hermitian else _size(a[i, i])

    here = diagonal(k)
    below = _size(a[k + 1 :, k])
    largest = below.max(initial=0.0)
    if max(here, largest) == 0 or numpy.isnan(here):
        return k, 0
    if here >= _ALPHA * largest:
        return k, 1
    row = k + 1 + int(below.argmax())
    others = _size(numpy.concatenate([a[row, k:row], a[row + 1 :, row]])).max()
    if here >= _ALPHA * largest * (largest / others):
        return k, 1
    return row, 1 if diagonal(row) >= _ALPHA * others else 2


def _factor(a, pivots, hermitian):
    """Factors `a`, whose both triangles are given, in place: the lower is LD's. Returns the first zero pivot, from 1, or 0."""
    count, k, info = len(a), 0, 0
    of = numpy.conj if hermitian else lambda x: x
    while k < count:
        row, step = _choose(a, k, hermitian)
        last = k + max(step, 1) - 1
        if row != last:  # of what is left: the columns of L stay, as LAPACK's do
            a[[last, row], k:] = a[[row, last], k:]
            a[k:, [last, row]] = a[k:, [row, last]]
        rest = slice(last + 1, count)
        if hermitian:
            a[k, k], a[last, last] = a[k, k].real, a[last, last].real
        if step == 0:
            info = info or k + 1
        elif step == 1:
            column = a[rest, k] / a[k, k]
            a[rest, rest] -= numpy.outer(column, of(a[rest, k]))
            a[rest, k] = column
        else:
            # By quotients of the element off the diagonal, which is the largest, so that nothing overflows.
            off = a[last, k]
            over, under = a[last, last] / off, a[k, k] / of(off)
            first, second = a[rest, k].copy(), a[rest, last].copy()
            scale = 1 / (over * under - 1)
            w0 = scale * (over * first - second) / of(off)
            w1 = scale * (under * second - first) / off
            a[rest, rest] -= numpy.outer(w0, of(first)) + numpy.outer(w1, of(second))
            a[rest, k], a[rest, last] = w0, w1
        pivots[k : last + 1] = row + 1 if step < 2 else -(row + 1)
        k = last + 1
    return info


class _Constant(Function):
    """A result whose gradient is refused, as torch refuses it."""

    @staticmethod
    def forward(ctx: Any, name: str, value: Tensor, *of: Tensor) -> Tensor:
        ctx.name = name
        return value.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        raise RuntimeError(f"derivative for aten::{ctx.name} is not implemented")


@with_leading_batches
def _factors_of(A, hermitian, checked_by):
    low = numpy.tril(A.detach().cpu().numpy())
    flat = low.reshape(math.prod(low.shape[:-2]), *low.shape[-2:]).copy()
    pivots = numpy.zeros(flat.shape[:-1], numpy.int32)
    info = numpy.zeros(len(flat), numpy.int32)
    for i, m in enumerate(flat):
        upper = numpy.tril(m, -1).T
        whole = m + (upper.conj() if hermitian else upper)
        info[i] = _factor(whole, pivots[i], hermitian)
        m[...] = numpy.tril(whole)
    shape = A.shape
    found = flat.reshape(low.shape), pivots.reshape(shape[:-1]), info.reshape(shape[:-2])
    found = tuple(from_numpy(x).to(A.device) for x in found)
    if checked_by is not None:
        text = "The {}. row of D is zero: the matrix is singular, and its factors solve nothing."
        _factors._check(found[2], A, checked_by, text.format)
    return found


def _checked(name: str, A: Tensor) -> None:
    from smolder import linalg

    linalg._check(name, A)


@takes_out
def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> linalg_ldl_factor_ex:
    """As ldl_factor, with `info`: the number of the first row, from 1, whose block of D is zero; 0 where none is."""
    return _ldl("linalg.ldl_factor_ex", A, hermitian, check_errors)


def _ldl(name: str, A: Tensor, hermitian: bool, check_errors: bool) -> linalg_ldl_factor_ex:
    _checked(name, A)
    LD, pivots, info = _factors_of(A, bool(hermitian) and A.dtype.is_complex, name if check_errors else None)
    if A.requires_grad and _core.is_grad_enabled():
        LD = _Constant.apply("linalg_ldl_factor_ex", LD, A)
    return linalg_ldl_factor_ex(LD, pivots, info)


@takes_out
def ldl_factor(A: Tensor, *, hermitian: bool = False) -> linalg_ldl_factor:
    """L and D in one matrix each, with A = P L D L^T P^T, and pivots: as LAPACK's sytrf gives them, for ldl_solve.

    A: [..., n, n], symmetric, or hermitian; what is above the diagonal is not read. D has blocks of one row and of two, of
    which both pivots are negative. It is found on the host. Gradients raise, as torch's do; so does a D with a zero.
    """
    return linalg_ldl_factor(*_ldl("linalg.ldl_factor", A, hermitian, True)[:2])


def _solve(a, pivots, b, hermitian):
    """X in place of `b`, for one matrix: through L, D and L^T, exchanging rows on the way."""
    of = numpy.conj if hermitian else lambda x: x
    count, k = len(a), 0
    while k < count:
        last = k + int(pivots[k] < 0)
        row = abs(int(pivots[k])) - 1
        b[[last, row]] = b[[row, last]]
        b[last + 1 :] -= a[last + 1 :, k : last + 1] @ b[k : last + 1]
        if last == k:
            b[k] /= a[k, k].real if hermitian else a[k, k]
        else:
            off = a[last, k]
            over, under = a[k, k] / of(off), a[last, last] / off
            first, second = b[k] / of(off), b[last] / off
            scale = over * under - 1
            b[k], b[last] = (under * first - second) / scale, (over * second - first) / scale
        k = last + 1
    while k > 0:
        last = k - 1
        k = last - int(pivots[last] < 0)
        b[k : last + 1] -= of(a[last + 1 :, k : last + 1]).T @ b[last + 1 :]
        row = abs(int(pivots[last])) - 1
        b[[last, row]] = b[[row, last]]


@takes_out
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """X with A X = B, from what ldl_factor gives of A. B: [..., n, k], with batches that broadcast with those of LD."""
    name = "linalg.ldl_solve"
    _checked(name, LD)
    if B.dim() < 2:
        raise RuntimeError(
            f"torch.{name}: Expected B to have at least 2 dimensions, but it has {B.dim()} dimensions instead"
        )
    if LD.shape[:-1] != pivots.shape:
        raise RuntimeError(
            f"torch.{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
            f"{list(pivots.shape)} instead"
        )
    if pivots.dtype.is_floating_point or pivots.dtype.is_complex or pivots.dtype == _core.bool:
        raise RuntimeError(f"torch.{name}: Expected pivots to be integers. Got {kind_name(pivots.dtype)}")
    if LD.dtype != B.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {kind_name(B.dtype)} and A of type {kind_name(LD.dtype)} instead."
        )
    if LD.size(-1) != B.size(-2):
        raise RuntimeError(
            f"Incompatible matrix sizes for torch.{name}: each A matrix is {LD.size(-1)} by {LD.size(-1)} but each b "
            f"matrix is {B.size(-2)} by {B.size(-1)}"
        )
    X = _solutions(LD, pivots, B, bool(hermitian) and LD.dtype.is_complex)
    if (LD.requires_grad or B.requires_grad) and _core.is_grad_enabled():
        return _Constant.apply("linalg_ldl_solve", X, LD, B)
    return X


@with_leading_batches
def _solutions(LD, pivots, B, hermitian):
    lead = broadcast_shapes(tuple(LD.shape[:-2]), tuple(B.shape[:-2]))
    a, p, b = (x.detach().cpu().numpy() for x in (LD, pivots, B))
    n = a.shape[-1]
    shape = (*lead, *b.shape[-2:])
    flat = numpy.broadcast_to(b, shape).reshape(math.prod(lead), *shape[-2:]).copy()
    matrices = numpy.broadcast_to(a, (*lead, n, n)).reshape(len(flat), n, n)
    rows = numpy.broadcast_to(p, (*lead, n)).reshape(len(flat), n)
    for m, order, x in zip(matrices, rows, flat, strict=True):
        _solve(m, order, x, hermitian)
    return from_numpy(flat.reshape(shape)).to(B.device)
