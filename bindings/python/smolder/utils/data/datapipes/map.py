"""Pipes of samples by key."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from smolder._names import listing as _listing
from smolder.utils.data.datapipes import MapDataPipe, functional_datapipe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Mapper", "SequenceWrapper"]
__dir__ = _listing(__name__)


class SequenceWrapper(MapDataPipe[Any]):
    """The elements of a sequence or of a dictionary, of a copy unless told otherwise."""

    sequence: Sequence[Any] | dict[Any, Any]

    def __init__(self, sequence: Sequence[Any] | dict[Any, Any], deepcopy: bool = True) -> None:
        self.sequence = copy.deepcopy(sequence) if deepcopy else sequence

    def __getitem__(self, index: Any) -> Any:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)


@functional_datapipe("map")
class Mapper(MapDataPipe[Any]):
    """What a function makes of each sample."""

    datapipe: Any
    fn: Callable[..., Any]

    def __init__(self, datapipe: Any, fn: Callable[..., Any]) -> None:
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index: Any) -> Any:
        return self.fn(self.datapipe[index])

    def __len__(self) -> int:
        return len(self.datapipe)
