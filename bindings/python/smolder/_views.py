"""Views by strides, and old names of methods."""

from __future__ import annotations

import math
from collections.abc import Sequence

from smolder import _core
from smolder._call_errors import as_int
from smolder._strided import view_of
from smolder._tensor import Tensor

__all__ = ["as_strided"]


def as_strided(input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """The view of the memory of a tensor whose elements are `stride` apart.

    Elements may be seen twice, as in windows that overlap; a write then keeps what the last of them has. Gradients flow
    to the tensor, and where it is a view to what it is a view of, from elements beside it too. One without such a base
    that has gaps, or elements beside it, raises NotImplementedError if it requires gradients.
    """
    size, stride = (tuple(as_int("as_strided", n, i) for i in v) for n, v in (("size", size), ("stride", stride)))
    if storage_offset is not None:
        storage_offset = as_int("as_strided", "storage_offset", storage_offset)
    first = input.storage_offset()
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if any(s < 0 for s in size):
        raise RuntimeError(f"as_strided: sizes may not be negative, got {list(size)}")
    if any(s < 0 for s in stride):
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}")
    at = first if storage_offset is None else storage_offset
    if at < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {at}")
    end = at + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) + 1 if math.prod(size) else at
    owner = input._storage()[1]
    item = input.itemsize
    there = owner.numel() * owner.itemsize // item
    if end > there:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {at}, and itemsize {item} requiring a "
            f"storage size of {end * item} are out of bounds for storage of size {there * item}"
        )
    if input.is_complex():  # whose storage is of pairs
        pairs = _seen(_core.view_as_real(input), 2 * at, (*size, 2), (*(2 * s for s in stride), 1))
        return _core.view_as_complex(pairs)
    return _seen(input, at, size, stride)


def _seen(input, at, size, stride):
    first, last = input.storage_offset(), at + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    within = first <= at and last < first + input.numel()
    for order in (range(input.dim()), sorted(range(input.dim()), key=lambda i: -input.stride(i))):
        dense = input.permute(list(order))  # where the elements lie in order
        if dense.is_contiguous() and (within or not math.prod(size)):
            return view_of(dense.reshape(-1), at - first, size, stride)
    if input._base is not None:
        return _seen(input._base, at, size, stride)
    owner = input._storage()[1]
    if input.requires_grad or not owner.is_contiguous():
        raise NotImplementedError(
            "as_strided: gradients of a tensor that is not contiguous, or of elements outside of it, are not supported"
        )
    return view_of(owner.detach().reshape(-1), at, size, stride)


def _as_strided(self, size, stride, storage_offset=None):
    return as_strided(self, size, stride, storage_offset)


def _ndimension(self):
    """As dim()."""
    return self.dim()


_as_strided.__name__, _as_strided.__doc__, _ndimension.__name__ = "as_strided", as_strided.__doc__, "ndimension"
Tensor.as_strided, Tensor.ndimension = _as_strided, _ndimension
