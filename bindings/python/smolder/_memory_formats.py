"""The memory formats channels_last and channels_last_3d: the order of elements in which channels lie side by side.

A tensor in such a format is a view of one that lies so, with the dimensions exchanged: its strides are torch's, and what
depends on them, as `view()` and a file, goes by them. Values are the same in every format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smolder._layouts import _clone, channels_last, channels_last_3d, check_format

if TYPE_CHECKING:
    from typing import Any

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


def format_of(t: Tensor) -> Any:
    """The format of channels last that the elements lie in and no other; None for most tensors."""
    wanted = _OF_RANK.get(t.dim())
    if wanted is None or t.is_contiguous() or not is_in(t, wanted):
        return None
    return wanted


def copied(t: Tensor, wanted: Any) -> Tensor:
    """The values in memory of their own, in a format of channels last."""
    rank = _RANKS[wanted]
    if t.dim() != rank:
        raise RuntimeError(f"required rank {rank} tensor to use {wanted.name} format")
    last = t.permute(0, *range(2, rank), 1)
    return _clone(last).permute(0, rank - 1, *range(1, rank - 1))


def taken(name: str, t: Tensor, wanted: Any, like: Tensor | None = None) -> Tensor:
    """A new tensor in the format that a call asks for: that of `like`, if there is one, where it asks for none."""
    if wanted in _RANKS:
        return copied(t, wanted)
    check_format(name, wanted)
    kept = None if like is None or (wanted is not None and wanted.name != "preserve_format") else format_of(like)
    return t if kept is None or t.dim() != _RANKS[kept] else copied(t, kept)


def converted(name: str, t: Tensor, wanted: Any, like: Tensor) -> Tensor:
    """What `to` gives of `like`: `t`, which may be `like`, in the format asked for, or else that of `like`."""
    if wanted in _RANKS:
        return t if _has_strides_of(t, wanted) else copied(t, wanted)
    check_format(name, wanted)
    if wanted is not None and wanted.name == "contiguous_format":
        return t if format_of(t) is None else _clone(t)
    return t if t is like else taken(name, t, None, like)


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
