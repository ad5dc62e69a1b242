"""Batches whose tensors are in memory that is pinned for CUDA."""

from __future__ import annotations

import collections.abc
from typing import Any

from smolder._names import listing as _listing
from smolder._tensor import Tensor
from smolder._typing import Device
from smolder.utils.data.collate import rebuilt

__all__ = ["pin_memory"]
__dir__ = _listing(__name__)


def pin_memory(data: Any, device: Device = None) -> Any:
    """The same containers with pinned tensors; what has a method pin_memory() is asked, and all else is as it was."""
    if isinstance(data, Tensor):
        return data.pin_memory(device or None)
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, collections.abc.Mapping):
        return rebuilt(data, {key: pin_memory(item, device) for key, item in data.items()})
    if isinstance(data, collections.abc.Sequence) and not isinstance(data, str | bytes):
        return rebuilt(data, [pin_memory(item, device) for item in data])
    return data
