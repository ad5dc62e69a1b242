"""Ops that move elements: transposes, slices, joins, masks, conversions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smolder import _core
from smolder._sparse import _parts
from smolder._sparse._dispatch import rule
from smolder._sparse._parts import (
    COO,
    CSC,
    CSR,
    coalesced,
    coordinates,
    is_sparse,
    kind,
    like,
    made,
    missing,
    sparse_dims,
    values_of,
)
from smolder._typing import Tensor


def axis_of(dim: int, rank: int) -> int:
    """A dimension counted from the first."""
    bound = max(rank, 1)
    if not -bound <= dim < bound:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {dim})")
    return dim % bound


@rule()
def permute(input: Tensor, *dims: Any) -> Tensor:
    """The dimensions in another order; sparse ones stay before dense ones."""
    order = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    order = [axis_of(d, input.dim()) for d in order]
    if sorted(order) != list(range(input.dim())):
        raise RuntimeError(f"permute: the dims {tuple(dims)} are no order of the dimensions of {list(input.shape)}")
    n = sparse_dims(input)
    if any((i < n) != (d < n) for i, d in enumerate(order)):
        raise RuntimeError("transpose: transposed dimensions must either both be sparse or dense")
    shape = [input.shape[d] for d in order]
    values = values_of(input)
    if order[n:] != list(range(n, input.dim())):
        values = values.permute((0, *(d - n + 1 for d in order[n:])))
    same = order[:n] == list(range(n))
    if kind(input) != COO:
        turned = kind(input) if same else CSR + CSC - kind(input)
        return made(values, _parts.indices_of(input), shape, turned)
    if same:
        return made(values, _parts.indices_of(input), shape, coalesced=input.is_coalesced())
    rows = input._indices().unbind(0)
    return made(values, [_core.stack([rows[d] for d in order[:n]])], shape)


@rule("transpose", "swapaxes", "swapdims")
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions change places."""
    order = list(range(input.dim()))
    a, b = axis_of(dim0, input.dim()), axis_of(dim1, input.dim())
    order[a], order[b] = order[b], order[a]
    return permute(input, order)


@rule()
def t(input: Tensor) -> Tensor:
    """The transpose of a matrix."""
    if input.dim() > 2 or sparse_dims(input) > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {sparse_dims(input)} sparse and "
            f"{input.dim() - sparse_dims(input)} dense dimensions"
        )
    return input if input.dim() < 2 else transpose(input, 0, 1)


@rule()
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """With a new dimension of 1."""
    if kind(input) != COO:
        raise missing("unsqueeze", input)
    dim, n = axis_of(dim, input.dim() + 1), sparse_dims(input)
    shape = list(input.shape)
    shape.insert(dim, 1)
    indices = input._indices()
    if dim > n:
        return made(values_of(input).unsqueeze(dim - n + 1), [indices], shape, coalesced=input.is_coalesced())
    zeros = indices.new_zeros((1, indices.shape[1]))
    return made(values_of(input), [_core.cat([indices[:dim], zeros, indices[dim:]])], shape)


def _picked(s, kept, indices, shape):
    """The values of a COO tensor that are kept, at other places."""
    return made(values_of(s).index_select(0, kept), [indices], shape, coalesced=s.is_coalesced())


@rule()
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """One slice of a dimension."""
    s = _parts.to_coo(input)
    dim, n = axis_of(dim, s.dim()), sparse_dims(s)
    shape, index = list(s.shape), int(index)
    size = shape.pop(dim)
    if not -size <= index < size:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(s.shape)} at dimension {dim}")
    index %= size
    if dim >= n:
        values = values_of(s).select(dim - n + 1, index)
        return made(values, [s._indices()], shape, coalesced=s.is_coalesced())
    rows = s._indices()
    kept = (rows[dim] == index).nonzero().reshape(-1)
    if n == 1:
        return values_of(s).index_select(0, kept).sum(0)
    others = _core.cat([rows[:dim], rows[dim + 1 :]]).index_select(1, kept)
    return _picked(s, kept, others, shape)


@rule()
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """All slices of a dimension."""
    dim = axis_of(dim, input.dim())
    return tuple(select(input, dim, i) for i in range(input.shape[dim]))


@rule()
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """Some slices of a dimension, one after the other."""
    if kind(input) != COO:
        raise missing("narrow_copy", input)
    dim, n, shape = axis_of(dim, input.dim()), sparse_dims(input), list(input.shape)
    start = start + shape[dim] if start < 0 else start
    if length < 0 or start < 0 or start + length > shape[dim]:
        raise RuntimeError(
            f"Invalid range to narrow. range(start, start+length) must be a subset of range(0, {shape[dim]})."
        )
    shape[dim] = length
    indices = input._indices()
    if dim >= n:
        values = values_of(input).narrow(dim - n + 1, start, length).clone()
        return made(values, [indices], shape, coalesced=input.is_coalesced())
    row = indices[dim]
    kept = ((row >= start) & (row < start + length)).nonzero().reshape(-1)
    moved = indices.index_select(1, kept)
    moved = _core.cat([moved[:dim], moved[dim : dim + 1] - start, moved[dim + 1 :]])
    return _picked(input, kept, moved, shape)


@rule()
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """Slices of a dimension by number."""
    if kind(input) != COO:
        raise missing("index_select", input)
    if index.dim() != 1 or index.dtype not in (_core.int64, _core.int32):
        raise IndexError(f"index_select() argument index must be 1-D LongTensor, got {index.dim()}-D of {index.dtype}")
    dim, n, shape = axis_of(dim, input.dim()), sparse_dims(input), list(input.shape)
    size, shape[dim] = shape[dim], index.shape[0]
    if index.shape[0] and bool(((index < -size) | (index >= size)).any()):
        raise IndexError(f"index_select(): index contains a number out of range for dimension {dim} of size {size}")
    index = _core.where(index < 0, index + size, index).to(_core.int64)
    if dim >= n:
        values = values_of(input).index_select(dim - n + 1, index)
        return made(values, [input._indices()], shape, coalesced=input.is_coalesced())
    # Each value is where its number is in index: pairs of both, in the order of index.
    indices = input._indices()
    order = _core.argsort(indices[dim], stable=True)
    in_order = indices[dim].index_select(0, order)
    first = _core.searchsorted(in_order, index)
    met = _core.searchsorted(in_order, index, right=True) - first
    ends = met.cumsum(0)
    number = _core.zeros((int(ends[-1]) if ends.shape[0] else 0,), dtype=_core.int64).to(ends.device)
    number = number.add(1).cumsum(0) - 1
    at = _core.searchsorted(ends, number, right=True)
    kept = order.index_select(0, (first - ends + met).index_select(0, at) + number)
    rows = indices.index_select(1, kept)
    places = _core.cat([rows[:dim], at.unsqueeze(0), rows[dim + 1 :]])
    return made(values_of(input).index_select(0, kept), [places], shape)


def _check_listed(name, tensors):
    if not isinstance(tensors, list | tuple):
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not {type(tensors).__name__}"
        )
    for i, x in enumerate(tensors):
        if not is_sparse(x):
            raise RuntimeError(f"Concatenating sparse tensors, but a dense tensor was found at position {i}.")
        if kind(x) != COO:
            raise missing(name, x)


@rule("cat", "concat", "concatenate")
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """COO tensors one after the other along a dimension."""
    _check_listed("cat", tensors)
    first = tensors[0]
    dim, n = axis_of(dim, first.dim()), sparse_dims(first)
    shape = list(first.shape)
    for x in tensors:
        others = list(x.shape)
        if len(others) != len(shape) or others[:dim] + others[dim + 1 :] != shape[:dim] + shape[dim + 1 :]:
            raise RuntimeError(
                f"All tensors must have the same shape: {shape} (except in the concatenating dimension), but found shape "
                f"{others}"
            )
        if sparse_dims(x) != n:
            raise RuntimeError("All tensors must have the same sparse_dim and dense_dim")
    shape[dim] = sum(x.shape[dim] for x in tensors)
    places, values, before = [], [], 0
    for x in tensors:
        rows, mine = x._indices(), values_of(x)
        if dim < n:
            rows = _core.cat([rows[:dim], rows[dim : dim + 1] + before, rows[dim + 1 :]]) if before else rows
        else:
            sizes = [rows.shape[1], *shape[n:]]
            sides = []
            for extent in (before, shape[dim] - before - x.shape[dim]):
                sizes[dim - n + 1] = extent
                sides.append(mine.new_zeros(sizes))
            mine = _core.cat([sides[0], mine, sides[1]], dim - n + 1)
        places.append(rows)
        values.append(mine)
        before += x.shape[dim]
    return made(_core.cat(values), [_core.cat(places, 1)], shape)


@rule()
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """COO tensors along a new dimension."""
    _check_listed("stack", tensors)
    return cat([unsqueeze(x, dim) for x in tensors], dim)


@rule()
def sparse_mask(input: Tensor, mask: Tensor) -> Tensor:
    """The elements at the places of a sparse tensor, in its layout."""
    if not is_sparse(mask):
        raise RuntimeError("sparse_mask(): argument 'mask' must be a sparse tensor")
    if tuple(input.shape) != tuple(mask.shape):
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(input.shape)} but mask has size "
            f"{list(mask.shape)}"
        )
    from smolder._sparse._elementwise import _at

    if not is_sparse(input):
        return like(mask, _at(mask, input))
    s = coalesced(_parts.to_coo(input))
    sizes = tuple(s.shape)[: sparse_dims(s)]
    mine, wanted = _parts.flat(s._indices(), sizes), _parts.flat(coordinates(mask), sizes)
    values = values_of(s)
    if not mine.shape[0]:
        return like(mask, values.new_zeros((wanted.shape[0], *values.shape[1:])))
    at = _core.searchsorted(mine, wanted).clamp(max=mine.shape[0] - 1)
    found = (mine.index_select(0, at) == wanted).reshape((-1,) + (1,) * (values.dim() - 1))
    values = values.index_select(0, at)
    return like(mask, _core.where(found, values, _core.zeros_like(values)))


@rule("reshape", "flatten", "reshape_as", "ravel")
def reshape(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Raises, as torch's."""
    raise RuntimeError("reshape is not implemented for sparse tensors")


@rule("expand", "expand_as", "broadcast_to", "repeat")
def expand(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Raises, as torch's."""
    raise RuntimeError("expand is unsupported for Sparse tensors")
