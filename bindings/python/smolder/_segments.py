"""Reductions over segments of a dimension, whose lengths or offsets are a tensor."""

from __future__ import annotations

from smolder import _core
from smolder._creation import arange, full
from smolder._typing import Number, Tensor

__all__ = ["segment_reduce"]

# By reduction: scatter_reduce's name of it, and what a segment of nothing gives.
_REDUCTIONS = {
    "sum": ("sum", 0.0),
    "mean": ("sum", 0.0),
    "max": ("amax", -float("inf")),
    "min": ("amin", float("inf")),
    "prod": ("prod", 1.0),
}


def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Number | None = None,
) -> Tensor:
    """Reduces the segments of a dimension, each to one element.

    Arguments:
        data (Tensor): floats, [..., n, ...]
        reduce (str): "sum", "mean", "max", "min" or "prod"
        lengths (Tensor): of the segments, [..., segments], whose leading dimensions are data's before axis
        indices (Tensor): not supported, as in torch
        offsets (Tensor): in place of lengths: where segments begin, and where the last one ends, [..., segments + 1]
        axis (int): which dimension
        unsafe (bool): lengths are not checked; else they are read, so the step ends
        initial (float): what every segment begins with; what one of length 0 gives
    """
    if reduce not in _REDUCTIONS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    axis = _axis(data, axis)
    begins = _begins(data, lengths, offsets, axis, unsafe)
    lead, n, rest = data.shape[:axis], data.shape[axis], data.shape[axis + 1 :]
    if begins.dim() != axis + 1:
        raise RuntimeError(f"segment_reduce(): Expected axis to be the last dimension of lengths but got {axis}.")
    if begins.shape[:-1] != lead:
        raise RuntimeError(
            f"segment_reduce(): lengths or offsets of {tuple(begins.shape)} do not begin as data's {lead}"
        )
    if not data.dtype.is_floating_point:
        raise NotImplementedError(f"segment_reduce(): not implemented for {data.dtype}")
    segments = begins.shape[-1] - 1
    place = _core.searchsorted(begins, arange(n, device=data.device).expand(*lead, n).contiguous(), right=True)
    index = place.reshape(*lead, n, *[1] * len(rest)).expand(data.shape)
    scattered, nothing = _REDUCTIONS[reduce]
    # A place before the first segment and one after the last take what is in none.
    shape = (*lead, segments + 2, *rest)
    out = full(shape, nothing if initial is None else initial, dtype=data.dtype, device=data.device)
    out = out.scatter_reduce(axis, index, data, scattered).narrow(axis, 1, segments)
    if reduce != "mean":
        return out
    count = begins.diff().reshape(*lead, segments, *[1] * len(rest))
    if initial is None:
        return out / count
    return _core.where(count > 0, out / count.clamp(min=1), out)


def _axis(data, axis):
    dims = data.dim()
    if not -dims <= axis < dims:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-dims}, {dims - 1}], but got {axis})")
    return axis % dims


def _begins(data, lengths, offsets, axis, unsafe):
    """Where segments begin and the last one ends."""
    if offsets is not None:
        return offsets
    if lengths is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if not unsafe:
        if bool((lengths < 0).any()):
            raise RuntimeError("lengths contains negative value!")
        if bool((lengths.sum(-1) != data.shape[axis]).any()):
            raise RuntimeError(
                "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when "
                "!unsafe."
            )
    return _core.cat([_core.zeros_like(lengths.narrow(-1, 0, 1)), lengths.cumsum(-1)], -1)
