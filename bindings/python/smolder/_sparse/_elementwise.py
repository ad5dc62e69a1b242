"""Ops of elements: of values alone where 0 stays 0, and of two tensors by where their values are."""

from __future__ import annotations

import math
import numbers
from typing import Any

from smolder import _core
from smolder._sparse import _parts
from smolder._sparse._dispatch import rule
from smolder._sparse._parts import COO, coalesced, is_sparse, kind, like, made, missing, values_of
from smolder._typing import Tensor

# Functions that are 0 at 0. Those of the first line are linear, so that several values of one place may stay apart.
_LINEAR = "neg negative positive conj conj_physical resolve_conj resolve_neg"
_UNARY = """abs absolute angle arcsin arcsinh arctan arctanh deg2rad rad2deg asin asinh atan atanh ceil erf erfinv expm1 fix floor frac
isinf isnan isneginf isposinf log1p nan_to_num relu round sgn sign signbit sin sinh sqrt square tan tanh trunc"""


def _of_values(name, linear):
    def unary(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if not is_sparse(input) or any(map(is_sparse, (*args, *kwargs.values()))):
            raise missing(name, input, *args, *kwargs.values())
        s = coalesced(input) if not linear and kind(input) == COO else input
        return like(s, getattr(_core.Tensor, name)(values_of(s), *args, **kwargs))

    return unary


for _names, _linear in ((_LINEAR, True), (_UNARY, False)):
    for _name in _names.split():
        if hasattr(_core.Tensor, _name):
            rule(_name)(_of_values(_name, _linear))


def _is_number(x):
    """Whether an operand is one for all elements: a number, or a strided tensor without dimensions."""
    if isinstance(x, _core.Tensor):
        return not is_sparse(x) and x.dim() == 0
    return isinstance(x, numbers.Number) or hasattr(x, "__float__")


@rule("mul", "multiply")
def mul(input: Any, other: Any) -> Tensor:
    """The product, which has a value where both have, or where the sparse one has."""
    if not is_sparse(input):
        input, other = other, input
    if _is_number(other):
        return like(input, values_of(input) * other)
    if not isinstance(other, _core.Tensor):
        raise TypeError(f"mul(): argument 'other' must be Tensor or Number, not {type(other).__name__}")
    if is_sparse(other):
        return _common(input, other)
    return like(input, values_of(input) * _at(input, other))


def _at(s, x):
    """The elements of a strided tensor at the places of a sparse one."""
    shape = tuple(s.shape)
    if x.dim() > len(shape):
        raise RuntimeError(f"mul: a strided tensor of shape {list(x.shape)} does not broadcast to shape {list(shape)}")
    x = x.expand(shape)
    n = _parts.sparse_dims(s)
    places = _parts.flat(_parts.coordinates(s), shape[:n])
    return x.reshape((math.prod(shape[:n]), *shape[n:])).index_select(0, places)


def _common(a, b):
    if a.shape != b.shape:
        raise RuntimeError(
            f"mul: Expected both operands to have the same size, but got {list(a.shape)} and {list(b.shape)}"
        )
    if a.layout is not b.layout:
        raise RuntimeError(f"mul: expected tensors of one layout, got {a.layout!r} and {b.layout!r}")
    wanted = kind(a)
    if _same_places(a, b) and (wanted != COO or a.is_coalesced()):
        return like(a, values_of(a) * values_of(b))
    a, b = coalesced(_parts.to_coo(a)), coalesced(_parts.to_coo(b))
    n = _parts.sparse_dims(a)
    if n != _parts.sparse_dims(b):
        raise RuntimeError(f"mul: expected tensors with as many sparse dimensions, got {n} and {_parts.sparse_dims(b)}")
    sizes = tuple(a.shape)[:n]
    mine, theirs = _parts.flat(a._indices(), sizes), _parts.flat(b._indices(), sizes)
    if not theirs.shape[0]:
        out = made(values_of(b) * values_of(b), [b._indices()], a.shape, coalesced=True)
    else:
        at = _core.searchsorted(theirs, mine).clamp(max=theirs.shape[0] - 1)
        kept = (theirs.index_select(0, at) == mine).nonzero().reshape(-1)
        values = values_of(a).index_select(0, kept) * values_of(b).index_select(0, at.index_select(0, kept))
        out = made(values, [a._indices().index_select(1, kept)], a.shape, coalesced=True)
    return out if wanted == COO else _parts.to_compressed(out, wanted)


def _same_places(a, b):
    pairs = zip(_parts.indices_of(a), _parts.indices_of(b), strict=False)
    return kind(a) == kind(b) and all(x._is_same(y) for x, y in pairs)


@rule("div", "divide", "true_divide")
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """Values over a number."""
    if not is_sparse(input) or not _is_number(other):
        shape = list(other.shape) if isinstance(other, _core.Tensor) else []
        raise RuntimeError(
            f"Sparse division requires a scalar or zero-dim dense tensor divisor (got shape {shape} for divisor)"
        )
    if rounding_mode is not None and kind(input) == COO:
        input = coalesced(input)
    return like(input, _core.div(values_of(input), other, rounding_mode=rounding_mode))


@rule()
def floor_divide(input: Any, other: Any) -> Tensor:
    """Values over a number, rounded down."""
    return div(input, other, rounding_mode="floor")


@rule()
def pow(input: Any, exponent: Any) -> Tensor:
    """Values to a power that is a number."""
    if not is_sparse(input) or kind(input) != COO or not _is_number(exponent):
        raise missing("pow", input, exponent)
    s = coalesced(input)
    return like(s, _core.pow(values_of(s), exponent))


@rule()
def add(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """input + alpha * other: sparse where both are, else strided."""
    if not is_sparse(other):
        if not isinstance(other, _core.Tensor) or kind(input) == COO:
            raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
        return _into(other, input, 1, alpha)
    if not is_sparse(input):
        if not isinstance(input, _core.Tensor):
            raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
        return _into(input, other, alpha, 1)
    if input.shape != other.shape:
        raise RuntimeError(
            f"add: Expected 'self' and 'other' to have same size, but self has size {list(input.shape)} while other has "
            f"size {list(other.shape)} (FYI, op2-sparse addition does not currently support broadcasting)"
        )
    if input.layout is not other.layout:
        raise RuntimeError(f"add: expected tensors of one layout, got {input.layout!r} and {other.layout!r}")
    return _sum(input, other, alpha)


def _into(x, s, alpha, of_x):
    """of_x * x + alpha * s, of a strided x."""
    if tuple(x.shape) != tuple(s.shape):
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same size, but self has size {list(x.shape)} while other has size "
            f"{list(s.shape)} (FYI, dense-sparse addition does not currently support broadcasting)"
        )
    dtype = _core.promote_types(x.dtype, s.dtype)
    shape, n = tuple(s.shape), _parts.sparse_dims(s)
    values, x = _times(values_of(s).to(dtype), alpha), _times(x.to(dtype), of_x)
    places = _parts.flat(_parts.coordinates(s), shape[:n])
    rows = x.reshape((math.prod(shape[:n]), *shape[n:]))
    return _core.index_add(rows, 0, places, values).reshape(shape)


def _times(x, factor):
    return x if isinstance(factor, int) and factor == 1 else x * factor


def _sum(a, b, alpha):
    dtype = _core.promote_types(a.dtype, b.dtype)
    left, right = values_of(a).to(dtype), _times(values_of(b).to(dtype), alpha)
    if _same_places(a, b):
        return like(a, left + right)
    wanted = kind(a)
    in_order = wanted != COO or (a.is_coalesced() and b.is_coalesced())
    if _parts.sparse_dims(a) != _parts.sparse_dims(b):
        raise RuntimeError(
            "add: expected 'self' and 'other' to have as many sparse dimensions, got "
            f"{_parts.sparse_dims(a)} and {_parts.sparse_dims(b)}"
        )
    places = [_core.cat([_parts.coordinates(a), _parts.coordinates(b)], 1)]
    out = made(_core.cat([left, right]), places, a.shape)
    if not in_order:
        return out
    out = coalesced(out)
    return out if wanted == COO else _parts.to_compressed(out, wanted)


@rule("sub", "subtract")
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """input - alpha * other."""
    return add(input, other, alpha=-alpha)
