"""The types of torch.jit.annotations that take a number in a script: lists, to Python."""

from __future__ import annotations

from typing import Any

from smolder._names import listing as _listing

__all__ = ["BroadcastingList1", "BroadcastingList2", "BroadcastingList3"]
__dir__ = _listing(__name__)


class _BroadcastingList:
    """`BroadcastingList2[int]`: a list of as many, for which a script takes one number too."""

    def __getitem__(self, kind: Any) -> Any:
        return list[kind]


BroadcastingList1, BroadcastingList2, BroadcastingList3 = (_BroadcastingList() for _ in range(3))
