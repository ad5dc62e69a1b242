"""Sums over dimensions, norms, and softmax along one: what has no value counts as nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from smolder import _core
from smolder._sparse import _parts
from smolder._sparse._dispatch import rule
from smolder._sparse._movement import axis_of
from smolder._sparse._parts import COO, coalesced, kind, like, made, missing, scattered, sparse_dims, values_of
from smolder._typing import DType, Tensor


def _axes(dim, rank):
    axes = [axis_of(d, rank) for d in ((dim,) if isinstance(dim, int) else dim)]
    if len(set(axes)) != len(axes):
        raise RuntimeError(f"dim {dim} appears multiple times in the list of dims")
    return axes


@rule()
def sum(
    input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The sum of all elements, strided, or over dimensions: sparse while a sparse dimension is left."""
    values = values_of(input)
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return values.sum(dtype=dtype)
    if kind(input) != COO:
        return _compressed_sum(input, dim, keepdim, dtype)
    axes, n = _axes(dim, input.dim()), sparse_dims(input)
    dense_axes = [d - n + 1 for d in axes if d >= n]
    if dense_axes or dtype is not None:
        values = values.sum(dense_axes, keepdim=keepdim, dtype=dtype) if dense_axes else values.to(dtype)
    elif not values.dtype.is_floating_point and not values.dtype.is_complex:
        values = values.to(_core.int64)
    left = [d for d in range(n) if d not in axes]
    shape = [1 if d in axes else size for d, size in enumerate(input.shape) if keepdim or d not in axes]
    if not left:
        out = values.sum(0)
        return out.reshape(shape) if keepdim else out
    rows = input._indices().unbind(0)
    zeros = rows[0].new_zeros(rows[0].shape)
    places = [zeros if d in axes else rows[d] for d in range(n) if keepdim or d not in axes]
    out = made(values, [_core.stack(places)], shape, coalesced=len(left) == n and input.is_coalesced())
    return coalesced(out)


def _compressed_sum(s, dim, keepdim, dtype):
    if not keepdim:
        raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
    out = sum(_parts.to_coo(s), dim, True, dtype=dtype)
    if out.layout is not _parts.LAYOUTS[COO]:  # of both dimensions
        out = _parts.from_dense(out, 2)
    return _parts.to_compressed(out, kind(s))


@rule()
def norm(
    input: Tensor,
    p: float | str | None = "fro",
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
) -> Tensor:
    """The p-norm of all elements."""
    if dim is not None and (isinstance(dim, int) or len(dim) != input.dim()):
        raise RuntimeError(
            "norm_sparse currently only supports full reductions, so 'dim' must either be empty or contain all dimensions of the input"
        )
    if keepdim:
        raise RuntimeError("norm_sparse currently does not support keepdim=True")
    s = coalesced(input) if kind(input) == COO else input
    values = values_of(s).reshape(-1)
    if dtype is None and not (values.dtype.is_floating_point or values.dtype.is_complex):
        raise RuntimeError(
            f"norm(): the desired output dtype should be either floating point or complex. Got {values.dtype}"
        )
    return (values if dtype is None else values.to(dtype)).norm(2 if p in ("fro", None) else p)


@rule()
def any(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Whether an element is not zero."""
    if dim is not None or kind(input) != COO:
        raise missing("any", input)
    return values_of(coalesced(input)).any()


# -- softmax


def softmax(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """exp(x) over the sum of exp along dim, of the values that there are: others count as minus infinity."""
    return _softmax("_sparse_softmax", input, dim, dtype, of_log=False)


def log_softmax(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """The logarithm of softmax."""
    return _softmax("_sparse_log_softmax", input, dim, dtype, of_log=True)


def _softmax(name, input, dim, dtype, of_log):
    if not _parts.is_sparse(input) or kind(input) != COO:
        raise missing(name, input) if _parts.is_sparse(input) else RuntimeError(f"{name}: expected a sparse tensor")
    s = coalesced(input)
    dim, n = axis_of(dim, s.dim()), sparse_dims(s)
    values = values_of(s) if dtype is None else values_of(s).to(dtype)
    if not s.numel():
        return like(s, values)
    if not values.dtype.is_floating_point:
        raise NotImplementedError(f'"softmax" not implemented for {values.dtype}')
    if dim >= n:
        of = _core.log_softmax if of_log else _core.softmax
        return like(s, of(values, dim - n + 1))
    pool, pools = _pools(s, dim, n)
    over = pool.reshape((-1,) + (1,) * (values.dim() - 1)).expand(values.shape)
    lowest = values.new_full((pools, *values.shape[1:]), -math.inf)
    most = lowest.scatter_reduce(0, over, values.detach(), "amax").index_select(0, pool)
    most = most.masked_fill(most == -math.inf, 0)  # where all are, exp is 0
    shifted = values - most
    powers = shifted.exp()
    total = scattered(pools, pool, powers).index_select(0, pool)
    return like(s, shifted - total.log() if of_log else powers / total)


def _pools(s, dim, n):
    """Which values are along dim together, by number, and how many numbers there are."""
    sizes = [size for d, size in enumerate(s.shape[:n]) if d != dim]
    rows = s._indices()
    pool = _parts.flat(_core.cat([rows[:dim], rows[dim + 1 :]]), sizes)
    pools = math.prod(sizes)
    if pools > 4 * pool.shape[0] + 1024:  # most of them empty
        different, pool = _parts._unique(pool)
        pools = different.shape[0]
    return pool, pools
