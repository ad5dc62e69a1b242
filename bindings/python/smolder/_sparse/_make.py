"""Sparse tensors from indices and values."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from smolder import _core
from smolder._creation import empty, tensor
from smolder._layouts import layout as layout_
from smolder._layouts import sparse_coo, sparse_csc, sparse_csr
from smolder._sparse import _parts
from smolder._sparse._parts import COO, CSC, CSR, made
from smolder._tensor import Size
from smolder._typing import Device, DType, Tensor

_checks = [False]  # whether invariants are looked at where a call does not say


def _index(data, name):
    x = data if isinstance(data, _core.Tensor) else tensor(data, dtype=None)
    if x.dtype.is_complex or x.dtype == _core.bool:
        raise RuntimeError(f"{name} must be an int64 or int32 tensor, got one of {x.dtype}")
    return x.detach().to(_core.int64)


def _values(data, dtype, device):
    if isinstance(data, _core.Tensor):
        if _parts.is_sparse(data):
            raise RuntimeError("expected values to be a strided tensor")
        return data if dtype is None and device is None else data.to(dtype=dtype, device=device)
    return tensor(data, dtype=dtype, device=device)


def _finished(s, requires_grad):
    return s.detach().requires_grad_() if requires_grad else s


def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Sequence[int] | None = None,
    *,
    dtype: DType | None = None,
    device: Device = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """A tensor with values[i] at indices[:, i], and zeros elsewhere; values at one place add up.

    indices is (sparse dimensions, values); values may have dense dimensions. The size is by default as large as the
    indices need. sparse_coo_tensor(size) has no values.
    """
    if values is None:
        return _finished(_empty(indices if size is None else size, dtype, device), requires_grad)
    values = _values(values, dtype, device)
    indices = _index(indices, "indices")
    if indices.dim() == 1 and indices.numel() == 0:
        indices = indices.reshape(0 if size is None else len(size) - values.dim() + 1, 0)
    if indices.dim() != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}")
    values = values.reshape(1).expand(indices.shape[1]) if values.dim() == 0 else values
    if indices.shape[1] != values.shape[0]:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {indices.shape[1]}, nnz from values: "
            f"{values.shape[0]}"
        )
    indices = indices.to(values.device)
    if size is None:
        largest = (indices.amax(1) + 1).tolist() if indices.numel() else [0] * indices.shape[0]
        size = (*largest, *values.shape[1:])
    size = Size(size)
    _check_size(size, indices, values)
    if _checks[0] if check_invariants is None else check_invariants:
        check(indices, size)
    return _finished(made(values, [indices], size, coalesced=bool(is_coalesced)), requires_grad)


def _check_size(size, indices, values):
    sparse_dim, dense_dim = indices.shape[0], values.dim() - 1
    if len(size) != sparse_dim + dense_dim:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, sparse_dim = {sparse_dim}, "
            f"dense_dim = {dense_dim}"
        )
    if any(n < 0 for n in size):
        raise RuntimeError(f"Trying to create tensor with negative dimension: {list(size)}")
    if tuple(values.shape[1:]) != tuple(size[sparse_dim:]):
        raise RuntimeError(
            f"values has incorrect size, expected [{', '.join(map(str, (indices.shape[1], *size[sparse_dim:])))}], got "
            f"{list(values.shape)}"
        )


def check(indices: Tensor, size: Sequence[int]) -> None:
    """Raises where an index is out of bounds; reads them."""
    if not indices.numel():
        return
    for dim, (least, most) in enumerate(zip(indices.amin(1).tolist(), indices.amax(1).tolist(), strict=True)):
        if least < 0:
            raise RuntimeError(f"found negative index {least} for dim {dim}")
        if most >= size[dim]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {dim}, size is {size[dim]} but found index {most}"
            )


def _empty(size, dtype, device):
    size = Size(size)
    indices = empty((len(size), 0), dtype=_core.int64, device=device)
    return made(empty(0, dtype=dtype or _core._default_dtype(), device=device), [indices], size, coalesced=True)


def empty_like(size: Sequence[int], dtype: DType, device: Any, wanted: layout_) -> Tensor:
    """A tensor of zeros without a value, of any layout."""
    size = Size(size)
    values = _core.zeros((0,), dtype=dtype).to(device=device)
    if wanted is sparse_coo:
        return made(values, [_core.zeros((len(size), 0), dtype=_core.int64).to(device=device)], size, coalesced=True)
    kind = _kind(wanted, "empty")
    if len(size) != 2:
        raise NotImplementedError(f"empty: a {wanted!r} tensor of {len(size)} dimensions is not supported; it has 2")
    lines = size[0] if kind == CSR else size[1]
    begins = _core.zeros((lines + 1,), dtype=_core.int64).to(device=device)
    return made(values, [begins, begins[:0]], size, kind)


_KINDS = {sparse_coo: COO, sparse_csr: CSR, sparse_csc: CSC}


def _kind(of, name):
    if of not in _KINDS:
        raise NotImplementedError(f"{name}: the layout {of!r} is not supported: sparse tensors are COO, CSR or CSC")
    return _KINDS[of]


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: DType | None = None,
    layout: layout_ | None = None,
    device: Device = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """A matrix whose values lie by rows (layout sparse_csr) or columns (sparse_csc): compressed_indices says where each
    begins, plain_indices the column (row) of each value."""
    if layout is None:
        raise RuntimeError("sparse_compressed_tensor expected sparse compressed tensor layout but got none")
    kind = _kind(layout, "sparse_compressed_tensor")
    if kind == COO:
        raise RuntimeError("sparse_compressed_tensor expected sparse compressed tensor layout but got Sparse")
    names = ("crow_indices", "col_indices") if kind == CSR else ("ccol_indices", "row_indices")
    values = _values(values, dtype, device)
    begins, plain = _index(compressed_indices, names[0]), _index(plain_indices, names[1])
    begins, plain = begins.to(values.device), plain.to(values.device)
    if begins.dim() != 1 or plain.dim() != 1 or values.dim() < 1:
        raise NotImplementedError(
            f"sparse_compressed_tensor: batches are not supported: {names[0]} and {names[1]} have one dimension, got "
            f"{list(begins.shape)} and {list(plain.shape)}"
        )
    lines = begins.shape[0] - 1
    if size is None:
        other = int(plain.max()) + 1 if plain.numel() else 0
        size = ((lines, other) if kind == CSR else (other, lines)) + tuple(values.shape[1:])
    size = Size(size)
    if _checks[0] if check_invariants is None else check_invariants:
        check_compressed(begins, plain, values, size, kind, names)
    return _finished(made(values, [begins, plain], size, kind), requires_grad)


def check_compressed(
    begins: Tensor, plain: Tensor, values: Tensor, size: Sequence[int], kind: int, names: tuple[str, str]
) -> None:
    """Raises where parts of a compressed matrix do not fit together; reads them."""
    lines, others = (size[0], size[1]) if kind == CSR else (size[1], size[0])
    if len(size) != 1 + values.dim():
        raise RuntimeError(
            f"tensor dimensionality must be sum of batch, base, and dense dimensionalities, got {list(size)}"
        )
    if begins.shape[0] != lines + 1:
        raise RuntimeError(
            f"{names[0]}.shape[-1] must be equal to the number of {names[0].split('_')[0]}s + 1 (={lines + 1}), but got {begins.shape[0]}"
        )
    if plain.shape[0] != values.shape[0]:
        raise RuntimeError(
            f"number of values ({values.shape[0]}) must be equal to that of {names[1]} ({plain.shape[0]})"
        )
    if int(begins[0]) != 0 or int(begins[-1]) != plain.shape[0]:
        raise RuntimeError(f"`{names[0]}[..., 0] == 0` and `{names[0]}[..., -1] == nnz` is not satisfied.")
    steps = begins[1:] - begins[:-1]
    if steps.numel() and not bool(((steps >= 0) & (steps <= others)).all()):
        raise RuntimeError(f"`0 <= {names[0]}[..., 1:] - {names[0]}[..., :-1] <= {others}` is not satisfied.")
    if plain.numel() and not bool(((plain >= 0) & (plain < others)).all()):
        raise RuntimeError(f"`0 <= {names[1]} < {others}` is not satisfied.")


def _of_layout(layout, name, names):
    @functools.wraps(sparse_compressed_tensor)
    def make(*args: Any, **kwargs: Any) -> Tensor:
        for own, general in zip(names, ("compressed_indices", "plain_indices"), strict=True):
            if own in kwargs:
                kwargs[general] = kwargs.pop(own)
        return sparse_compressed_tensor(*args, layout=layout, **kwargs)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"As sparse_compressed_tensor with the layout {layout.name}: {names[0]}, {names[1]}, values, size."
    return make


sparse_csr_tensor = _of_layout(sparse_csr, "sparse_csr_tensor", ("crow_indices", "col_indices"))
sparse_csc_tensor = _of_layout(sparse_csc, "sparse_csc_tensor", ("ccol_indices", "row_indices"))


def rebuilt(layout: layout_, data: tuple[Any, ...]) -> Tensor:
    """A tensor of the parts that a pickle has, which are looked at."""
    kind = _kind(layout, "load")
    if kind == COO:
        indices, values, size = data[:3]
        coalesced = bool(data[3]) if len(data) > 3 else False
        return sparse_coo_tensor(indices, values, size, check_invariants=True, is_coalesced=coalesced)
    begins, plain, values, size = data
    return sparse_compressed_tensor(begins, plain, values, size, layout=layout, check_invariants=True)
