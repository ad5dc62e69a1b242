"""The memory formats channels_last and channels_last_3d: the order of elements in which channels lie side by side.

A tensor in such a format remembers the order of its dimensions, as results of ops do (src/lazy/result_layout.cpp): its
strides are torch's, and what depends on them, as `view()` and a file, goes by them. Values are the same in every format.
"""

from __future__ import annotations

from typing import Any

from smolder._layouts import channels_last, channels_last_3d, check_format, preserve_format
from smolder._typing import Tensor

_RANKS = {channels_last: 4, channels_last_3d: 5}
_OF_RANK = {rank: format for format, rank in _RANKS.items()}


def is_in(t: Tensor, wanted: Any) -> bool:
    """Whether the elements lie in a format of channels last, without gaps."""
    if t.dim() != _RANKS.get(wanted):
        return False
    expected, strides, shape = 1, t.stride(), t.shape
    for d in (1, *range(t.dim() - 1, 1, -1), 0):
        if shape[d] != 1:
            if strides[d] != expected:
                return False
            expected *= shape[d]
    return True


def copied(t: Tensor, wanted: Any) -> Tensor:
    """The values in memory of their own, in a format of channels last."""
    rank = _RANKS[wanted]
    if t.dim() != rank:
        raise RuntimeError(f"required rank {rank} tensor to use {wanted.name} format")
    return t._in_order((0, *range(2, rank), 1))


def taken(name: str, t: Tensor, wanted: Any) -> Tensor:
    """A new tensor, which lies as what it was made like, in the format that a call asks for."""
    if wanted in _RANKS:
        return copied(t, wanted)
    check_format(name, wanted)
    return t if wanted is preserve_format or t.is_contiguous() else t._in_order(())


def converted(name: str, t: Tensor, wanted: Any, like: Tensor) -> Tensor:
    """Returns `t`, the result of `to` on `like`, in the format asked for; `t` may be `like` itself."""
    if wanted in _RANKS:
        return t if _has_strides_of(t, wanted) else copied(t, wanted)
    if t is not like:
        return taken(name, t, wanted)
    check_format(name, wanted)
    last = _OF_RANK.get(t.dim())
    stays = wanted is preserve_format or last is None or not _has_strides_of(t, last)
    return t if stays else t._in_order(())


def _has_strides_of(t: Tensor, wanted: Any) -> bool:
    """Whether torch tells a tensor by its strides to be in a format: those of sizes 1 count, and gaps do not."""
    if t.dim() != _RANKS[wanted]:
        return False
    least, strides, shape = 0, t.stride(), t.shape
    if strides[1] == 0:
        return False
    for d in (1, *range(t.dim() - 1, 1, -1), 0):
        if shape[d] == 0 or strides[d] < least or (d == 0 and least == strides[1]):
            return False
        least = strides[d] * max(shape[d], 1)
    return True
