"""The parts of a sparse tensor: values, and their places. No other module reads them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from smolder import _core
from smolder._creation import arange
from smolder._layouts import layout, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided
from smolder._typing import Tensor

COO, CSR, CSC = range(3)  # as src/autograd/sparse.h counts them
LAYOUTS = (sparse_coo, sparse_csr, sparse_csc)
# Names of layouts in torch's messages that refuse a tensor.
_WORDS = {sparse_coo: "Sparse", sparse_csr: "SparseCsr", sparse_csc: "SparseCsc", sparse_bsr: "SparseBsr"}
_WORDS |= {sparse_bsc: "SparseBsc", strided: "Strided"}


def is_sparse(x: object) -> bool:
    """Whether an object is a sparse tensor, of any layout."""
    return isinstance(x, _core.Tensor) and x.layout is not strided


def word(of: layout) -> str:
    """torch's word for a layout in messages."""
    return _WORDS[of]


def kind(s: Tensor) -> int:
    """COO, CSR or CSC."""
    return _core._sparse_parts(s)[2]


def indices_of(s: Tensor) -> tuple[Tensor, ...]:
    """For COO one tensor, [sparse dimensions, values]; else where rows (columns) begin, and columns (rows)."""
    return _core._sparse_parts(s)[0]


def values_of(s: Tensor) -> Tensor:
    """The values, with their history, on the tensor's storage."""
    return _core._sparse_values(s)


def made(
    values: Tensor, indices: Sequence[Tensor], shape: Iterable[int], kind: int = COO, coalesced: bool = False
) -> Tensor:
    """A sparse tensor of parts that fit together."""
    coalesced = kind == COO and (coalesced or values.shape[0] < 2)
    return _core._sparse_make(values, list(indices), tuple(shape), kind, coalesced)


def like(s: Tensor, values: Tensor) -> Tensor:
    """Other values at the places of a sparse tensor."""
    indices, shape, kind, coalesced = _core._sparse_parts(s)
    return _core._sparse_make(values, list(indices), (*shape[: sparse_dims(s)], *values.shape[1:]), kind, coalesced)


def sparse_dims(s: Tensor) -> int:
    """How many dimensions the indices are of."""
    indices, _, kind, _ = _core._sparse_parts(s)
    return indices[0].shape[0] if kind == COO else 2


def count(s: Tensor) -> int:
    """How many values there are."""
    return _core._sparse_values(s).shape[0]


# -- places as numbers


def coordinates(s: Tensor) -> Tensor:
    """(sparse dimensions, values): where each value is, of any layout."""
    indices, _, kind, _ = _core._sparse_parts(s)
    if kind == COO:
        return indices[0]
    begins, others = indices
    lines = line_of_each(begins, others.shape[0])
    return _core.stack([lines, others] if kind == CSR else [others, lines])


def line_of_each(begins: Tensor, count: int) -> Tensor:
    """The row (column) of each value, given where rows (columns) begin."""
    return _core.searchsorted(begins, arange(count, device=begins.device, dtype=begins.dtype), right=True) - 1


def begins_of(lines: Tensor, rows: int) -> Tensor:
    """Where each of so many rows (columns) begins, given that of each value, in order."""
    return _core.searchsorted(lines, arange(rows + 1, device=lines.device, dtype=lines.dtype))


def flat(indices: Tensor, sizes: Sequence[int]) -> Tensor:
    """The number of each place in row-major order."""
    if not sizes:
        return indices.new_zeros(indices.shape[1])
    out = indices[0]
    for row, size in zip(indices[1:].unbind(0) if len(sizes) > 1 else (), sizes[1:], strict=True):
        out = out * size + row
    return out


def unflat(places: Tensor, sizes: Sequence[int]) -> Tensor:
    """Indices of places given by number."""
    rows = []
    for size in reversed(sizes):
        rows.append(_core.remainder(places, max(size, 1)))
        places = _core.div(places, max(size, 1), rounding_mode="floor")
    return _core.stack(rows[::-1]) if rows else places.new_zeros((0, places.shape[0]))


def scattered(rows: int, index: Tensor, values: Tensor) -> Tensor:
    """Values added up by row, of so many rows: in their order, so the same each time."""
    if values.dtype == _core.bool:
        return scattered(rows, index, values.to(_core.int32)) != 0
    return _core.index_add(values.new_zeros((rows, *values.shape[1:])), 0, index, values)


# -- to other layouts


def coalesced(s: Tensor) -> Tensor:
    """A COO tensor with each place once, in order."""
    (indices,), shape, _, is_coalesced = _core._sparse_parts(s)
    if is_coalesced:
        return s
    sizes = shape[: indices.shape[0]]
    places, of_each = _unique(flat(indices, sizes))
    return made(scattered(places.shape[0], of_each, values_of(s)), [unflat(places, sizes)], shape, coalesced=True)


def _unique(places):
    from smolder._functions import unique

    return unique(places, return_inverse=True)


def dense(s: Tensor) -> Tensor:
    """The strided tensor of the same elements."""
    places, shape, n = coordinates(s), tuple(s.shape), sparse_dims(s)
    sizes = shape[:n]
    return scattered(math.prod(sizes), flat(places, sizes), values_of(s)).reshape(shape)


def to_coo(s: Tensor) -> Tensor:
    """The same in coordinates."""
    if kind(s) == COO:
        return s
    return made(values_of(s), [coordinates(s)], s.shape, coalesced=kind(s) == CSR)


def to_compressed(s: Tensor, wanted: int) -> Tensor:
    """The same in rows (CSR) or columns (CSC)."""
    if kind(s) == wanted:
        return s
    if s.dim() - (values_of(s).dim() - 1) != 2:
        raise RuntimeError(
            f"to_sparse_{'csr' if wanted == CSR else 'csc'}: expected a tensor with 2 sparse dimensions, got "
            f"{s.dim() - (values_of(s).dim() - 1)}; batches of compressed matrices are not supported"
        )
    c = coalesced(to_coo(s))
    rows, columns = indices_of(c)[0].unbind(0)
    values = values_of(c)
    if wanted == CSR:
        return made(values, [begins_of(rows, s.shape[0]), columns], s.shape, CSR)
    order = _core.argsort(columns, stable=True)
    by_column = columns.index_select(0, order)
    parts = [begins_of(by_column, s.shape[1]), rows.index_select(0, order)]
    return made(values.index_select(0, order), parts, s.shape, CSC)


def from_dense(x: Tensor, sparse_dim: int, wanted: int = COO) -> Tensor:
    """The elements, or slices of the last dimensions, that are not zero."""
    sizes = tuple(x.shape)[:sparse_dim]
    rows = x.reshape((math.prod(sizes), *x.shape[sparse_dim:]))
    kept = rows.detach() != 0
    if kept.dim() > 1:
        kept = kept.reshape(kept.shape[0], -1).any(1) if kept.numel() else kept.new_zeros(kept.shape[0])
    places = kept.nonzero().reshape(-1)
    out = made(rows.index_select(0, places), [unflat(places, sizes)], x.shape, coalesced=True)
    return out if wanted == COO else to_compressed(out, wanted)


# -- errors


def missing(name: str, *given: Any) -> NotImplementedError:
    """torch's error where a layout has no such op."""
    s = next(x for x in given if is_sparse(x))
    where = "CUDA" if s.is_cuda else "CPU"
    of = s.layout
    backend = ("Sparse" if of is sparse_coo else "SparseCsr") + where
    return NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the '{backend}' backend: it is not supported of tensors of "
        f"layout {of!r}. to_dense() makes a strided one"
    )


def need(name: str, x: Tensor, *wanted: layout) -> None:
    """Raises what torch raises of a tensor of another layout."""
    if x.layout not in wanted:
        what = "sparse coordinate tensor" if sparse_coo in wanted else "sparse row compressed tensor"
        what = "sparse column compressed tensor" if wanted == (sparse_csc,) else what
        raise RuntimeError(f"{name} expected {what} layout but got {word(x.layout)}")
