"""Tensors of a batch that differ in one extent, in one tensor, by torch's names: no padding is kept.

A nested tensor keeps its values one after another. Ops of elements, linear layers, norms, attention and sums take it; what
has no rule for it raises NotImplementedError. docs/nested.md names what there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smolder import _core
from smolder import _nested as _parts
from smolder._creation import as_tensor
from smolder._layouts import jagged, strided
from smolder._layouts import layout as layout_
from smolder._names import listing as _listing
from smolder._nested import Pieces, is_nested, made, missing, plain
from smolder._typing import Device, DType, Tensor

__all__ = [
    "as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged", "to_padded_tensor",
]  # fmt: skip
__dir__ = _listing(__name__)


def _layout(layout):
    layout = strided if layout is None else layout
    if layout not in (strided, jagged):
        raise RuntimeError(f"Specified layout is unsupported for nested tensors: {layout}")
    return layout


def _joined(tensors, kind):
    """A nested tensor of tensors, with their history."""
    if not tensors:
        raise RuntimeError("Cannot construct a nested tensor from an empty list of tensors")
    shapes = [tuple(t.shape) for t in tensors]
    if len({len(s) for s in shapes}) != 1 or not shapes[0]:
        raise RuntimeError(
            "When constructing a nested tensor, all tensors in list must have the same dim, of at least one"
        )
    if len({t.dtype for t in tensors}) != 1 or len({t.device for t in tensors}) != 1:
        raise RuntimeError("When constructing a nested tensor, all tensors in list must have the same dtype and device")
    differing = [a for a, extents in enumerate(zip(*shapes, strict=True)) if len(set(extents)) > 1]
    if len(differing) > 1:
        raise NotImplementedError(f"tensors that differ in several dimensions are not supported: {shapes}")
    at = differing[0] if differing else 0
    lengths = [s[at] for s in shapes]
    begins = [0]
    for n in lengths:
        begins.append(begins[-1] + n)
    offsets = _parts._ints(begins).to(tensors[0].device)
    return made(_core.cat(list(tensors), at), Pieces(offsets, begins), at + 1, kind)


def nested_tensor(
    tensor_list: Sequence[Any],
    *,
    dtype: DType | None = None,
    layout: layout_ | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A nested tensor with a copy of what is in a list of tensors, arrays or lists of numbers: a leaf."""
    kind = _layout(layout)
    if isinstance(tensor_list, _core.Tensor):
        tensor_list = tensor_list.unbind()
    if not isinstance(tensor_list, list | tuple):
        raise TypeError("Only lists (List[Tensor] and List[List...[Scalar]]) are accepted in nested_tensor")
    parts = [as_tensor(t).detach().to(device=device, dtype=dtype) for t in tensor_list]
    out = _joined(parts, kind)
    values = plain(out).detach()
    if len(parts) == 1:
        values = values.clone()  # one is not copied by joining it
    if pin_memory:
        values = values.pin_memory()
    return made(values.requires_grad_(requires_grad), out._pieces, out._ragged, kind)


def as_nested_tensor(
    ts: Tensor | Sequence[Tensor], dtype: DType | None = None, device: Device = None, layout: layout_ | None = None
) -> Tensor:
    """A nested tensor of tensors, with their history: a list of them, or one whose first dimension is the batch."""
    if is_nested(ts):
        kind = _layout(layout) if layout is not None else ts.layout
        moved = ts.to(device=device, dtype=dtype)
        return moved if kind is moved.layout else made(plain(moved), moved._pieces, moved._ragged, kind)
    tensors = ts.unbind() if isinstance(ts, _core.Tensor) else [as_tensor(t) for t in ts]
    return _joined([t.to(device=device, dtype=dtype) for t in tensors], _layout(layout))


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> Tensor:
    """A nested tensor of packed values: tensor i is values[offsets[i]:offsets[i + 1]], or the next lengths[i] of them.

    min_seqlen and max_seqlen are torch's hints for kernels that pad, and are not read: offsets say both.
    """
    if offsets is None:
        if lengths is None:
            raise RuntimeError("nested_tensor_from_jagged(): At least one of offsets or lengths is required.")
        offsets = _core.cat([lengths.new_zeros(1), lengths.cumsum(0)]).to(_core.int64)
    elif lengths is not None:
        raise NotImplementedError(
            "nested_tensor_from_jagged: gaps between tensors, by offsets and lengths, are not kept"
        )
    return made(values, Pieces.of(offsets), 1 if jagged_dim is None else jagged_dim)


def to_padded_tensor(input: Tensor, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
    """All in one tensor, each filled up with `padding` to the longest, or to the sizes of output_size."""
    if not is_nested(input):
        raise RuntimeError("to_padded_tensor: expected a nested tensor")
    return input.to_padded_tensor(padding, output_size)


def narrow(
    tensor: Tensor, dim: int, start: int | Tensor, length: int | Tensor, layout: layout_ | None = strided
) -> Tensor:
    """Takes `length` elements from `start` on, numbers or one for each, in dimension 1 of each tensor of a batch."""
    if dim != 1:
        raise RuntimeError("jagged layout only supports dim=1" if layout is jagged else "narrow only supports dim=1")
    if is_nested(tensor):
        raise missing("narrow", "it takes a tensor")
    count = tensor.shape[0]
    starts, counts = ([v] * count if isinstance(v, int) else v.expand(count).tolist() for v in (start, length))
    return _joined(
        [t.narrow(0, a, n) for t, a, n in zip(tensor.unbind(), starts, counts, strict=True)], _layout(layout)
    )


def masked_select(tensor: Tensor, mask: Tensor) -> Tensor:
    """The elements that a mask keeps of each row of a matrix."""
    if tensor.dim() != 2 or tensor.layout is not strided:
        raise NotImplementedError(f"nested.masked_select of {tensor.dim()} dimensions is not supported; it has 2")
    mask = mask.expand(tensor.shape)
    lengths = mask.sum(1)
    offsets = _core.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    return made(tensor.masked_select(mask), Pieces(offsets), 1)
