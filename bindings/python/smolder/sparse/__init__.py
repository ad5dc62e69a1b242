"""Functions of sparse tensors, by torch's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from smolder import _core
from smolder._names import listing as _listing
from smolder._sparse import _make, _parts, _products, _reduce
from smolder._sparse._products import addmm, sampled_addmm
from smolder._sparse._reduce import log_softmax, softmax
from smolder._typing import DType, Tensor
from smolder.sparse._types import (
    BFloat16Tensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
)

__all__ = [
    "BFloat16Tensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
    "addmm",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "sum",
]
__dir__ = _listing(__name__)


def mm(mat1: Tensor, mat2: Tensor, reduce: str | None = None) -> Tensor:
    """The product of two matrices, one of them sparse, or both; with gradients of values and of a strided factor.

    With reduce, of a CSR matrix and a strided one: "sum", "mean", "amax" or "amin" of the products of a row.
    """
    if reduce is not None:
        return _products.reduced_product(mat1, mat2, reduce)
    if not _parts.is_sparse(mat1) and not _parts.is_sparse(mat2):
        return _core.mm(mat1, mat2)
    return _products.mm(mat1, mat2)


def sum(input: Tensor, dim: int | Sequence[int] | None = None, dtype: DType | None = None) -> Tensor:
    """The sum of all elements, strided, or over dimensions of a COO tensor: sparse while a sparse dimension is left."""
    _parts.need("coalesce", input, _parts.LAYOUTS[_parts.COO])
    return _reduce.sum(input, dim, dtype=dtype)


def spdiags(diagonals: Tensor, offsets: Tensor, shape: tuple[int, int], layout: Any = None) -> Tensor:
    """The matrix with rows of diagonals on its diagonals: row i on that offsets[i] above the main one, from column on."""
    rows = diagonals.unsqueeze(0) if diagonals.dim() == 1 else diagonals
    at = (offsets.reshape(1) if offsets.dim() == 0 else offsets).tolist()
    if rows.dim() != 2:
        raise RuntimeError("Diagonals must be vector or matrix")
    if len(shape) != 2:
        raise RuntimeError("Output shape must be 2d")
    if len(at) != rows.shape[0]:
        raise RuntimeError(f"Number of diagonals ({rows.shape[0]}) does not match the number of offsets ({len(at)})")
    if len(set(at)) != len(at):
        raise RuntimeError("Offset tensor contains duplicate values")
    places, values = [[], []], []
    for i, offset in enumerate(at):
        first, end = max(offset, 0), min(rows.shape[1], shape[1], shape[0] + offset)
        if first < end:
            values.append(rows[i, first:end])
            places[0] += range(first - offset, end - offset)
            places[1] += range(first, end)
    held = _core.cat(values) if values else rows.new_zeros(0)
    out = _make.sparse_coo_tensor(places if values else [[], []], held, shape)
    return out if layout is None else out.to_sparse(layout=layout)


class check_sparse_tensor_invariants:
    """Says whether tensors that are made are looked at: a context manager, a decorator, and enable() and disable()."""

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self._before: list[bool] = []

    @staticmethod
    def is_enabled() -> bool:
        """Whether they are."""
        return _make._checks[0]

    @staticmethod
    def enable() -> None:
        """From now on they are."""
        _make._checks[0] = True

    @staticmethod
    def disable() -> None:
        """From now on they are not."""
        _make._checks[0] = False

    def __enter__(self) -> Self:
        self._before.append(_make._checks[0])
        _make._checks[0] = self.state
        return self

    def __exit__(self, *exception: object) -> None:
        _make._checks[0] = self._before.pop()

    def __call__(self, function: Any) -> Any:
        import functools

        @functools.wraps(function)
        def within(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return within
