"""Sparse tensors. A tensor of COO, CSR or CSC layout is a SparseTensor: docs/sparse.md says how it is made and what it does.

Imported when a program first asks for one: until then nothing knows of sparse tensors.
"""

from __future__ import annotations

from smolder import _core
from smolder._sparse import _elementwise as _elementwise  # which have rules, as the next two
from smolder._sparse import _products as _products
from smolder._sparse import _reduce as _reduce
from smolder._sparse import _tensor
from smolder._sparse._dispatch import call
from smolder._sparse._tensor import SparseTensor
from smolder._typing import Tensor

__all__ = ["SparseTensor"]

_tensor._add_members()
_core._set_sparse_class(SparseTensor)


def in_place(name: str, self: Tensor, other: Tensor) -> Tensor:
    """Runs an operator in place on a strided tensor and a sparse one, for C++."""
    return call(f"{name}_", self, other)
