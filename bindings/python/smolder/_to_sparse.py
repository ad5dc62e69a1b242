"""Methods of strided tensors that concern sparse ones, and functions that make these. The first call of one imports
smolder._sparse, which does the work."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from smolder import _core
from smolder._members import _add
from smolder._tensor import Tensor

if TYPE_CHECKING:
    from smolder._layouts import layout as layout_

__all__ = ["sparse_compressed_tensor", "sparse_coo_tensor", "sparse_csc_tensor", "sparse_csr_tensor", "spmm"]


def _later(name: str) -> Callable[..., Tensor]:
    def make(*args, **kwargs):
        return getattr(importlib.import_module("smolder._sparse._make"), name)(*args, **kwargs)

    make.__name__ = make.__qualname__ = name
    return make


sparse_coo_tensor: Callable[..., Tensor] = _later("sparse_coo_tensor")
sparse_coo_tensor.__doc__ = """sparse_coo_tensor(indices, values, size=None, *, dtype=None, device=None, requires_grad=False,
check_invariants=None, is_coalesced=None): a tensor with values[i] at indices[:, i], and zeros elsewhere."""
sparse_compressed_tensor: Callable[..., Tensor] = _later("sparse_compressed_tensor")
sparse_compressed_tensor.__doc__ = """sparse_compressed_tensor(compressed_indices, plain_indices, values, size=None, *,
dtype=None, layout=None, device=None, requires_grad=False): a matrix whose values lie by rows or by columns."""
sparse_csr_tensor: Callable[..., Tensor] = _later("sparse_csr_tensor")
sparse_csr_tensor.__doc__ = "sparse_csr_tensor(crow_indices, col_indices, values, size=None, ...): a matrix by rows."
sparse_csc_tensor: Callable[..., Tensor] = _later("sparse_csc_tensor")
sparse_csc_tensor.__doc__ = "sparse_csc_tensor(ccol_indices, row_indices, values, size=None, ...): a matrix by columns."


def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices, as mm: an old name of it for sparse ones."""
    return _core.mm(input, mat2)


@_add
def to_sparse(
    self: Tensor,
    sparse_dim: int | None = None,
    *,
    layout: layout_ | None = None,
    blocksize: Any = None,
    dense_dim: int | None = None,
) -> Tensor:
    """A sparse tensor of the elements that are not zero, COO unless said. Reads which these are, so it ends the step."""
    from smolder._sparse._tensor import converted

    return converted(self, sparse_dim, layout, blocksize, dense_dim)


@_add
def to_sparse_coo(self: Tensor) -> Tensor:
    """A sparse tensor in coordinates of the elements that are not zero."""
    return self.to_sparse()


@_add
def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """A sparse matrix by rows of the elements that are not zero."""
    from smolder._layouts import sparse_csr

    return self.to_sparse(layout=sparse_csr, dense_dim=dense_dim)


@_add
def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """A sparse matrix by columns of the elements that are not zero."""
    from smolder._layouts import sparse_csc

    return self.to_sparse(layout=sparse_csc, dense_dim=dense_dim)


@_add
def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """The tensor: it is strided."""
    return self if dtype is None else self.to(dtype)


@_add
def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """The elements at the places of a sparse tensor, in its layout."""
    from smolder._sparse._movement import sparse_mask

    return sparse_mask(self, mask)


@_add
def sparse_dim(self: Tensor) -> int:
    """0: no dimension has indices."""
    return 0


@_add
def dense_dim(self: Tensor) -> int:
    """All dimensions."""
    return self.dim()


_EXPECTED = {"indices": "coordinate", "is_coalesced": "coordinate", "coalesce": "coordinate", "values": ""}
_EXPECTED |= {"crow_indices": "row compressed", "col_indices": "row compressed"}
_EXPECTED |= {"ccol_indices": "column compressed", "row_indices": "column compressed"}


def _of_sparse(name, expected):
    def member(self):
        raise RuntimeError(f"{name} expected sparse {expected}{' ' if expected else ''}tensor layout but got Strided")

    member.__doc__ = "Raises: the tensor is strided."
    member.__name__ = name
    _add(member)


for _name, _expected in _EXPECTED.items():
    _of_sparse(_name, _expected)


def _not_sparse(self, name):
    where = "CUDA" if self.is_cuda else "CPU"
    return NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the '{where}' backend: it is of sparse tensors"
    )


def _without(name):
    def member(self):
        raise _not_sparse(self, name)

    member.__doc__ = "Raises: the tensor is strided."
    member.__name__ = name
    _add(member)


for _name in ("_nnz", "_indices", "_values"):
    _without(_name)


@_add
def sparse_resize_(self: Tensor, size: Sequence[int], sparse_dim: int, dense_dim: int) -> Tensor:
    """Raises: the tensor is strided."""
    raise _not_sparse(self, "sparse_resize_")


@_add
def sparse_resize_and_clear_(self: Tensor, size: Sequence[int], sparse_dim: int, dense_dim: int) -> Tensor:
    """Raises: the tensor is strided."""
    raise _not_sparse(self, "sparse_resize_and_clear_")


@_add
def resize_as_sparse_(self: Tensor, the_template: Tensor) -> Tensor:
    """Raises: the tensor is strided."""
    raise _not_sparse(self, "resize_as_sparse_")
