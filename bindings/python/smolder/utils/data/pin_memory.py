"""Batches whose tensors are in memory that is pinned for CUDA."""

import collections.abc

from smolder._tensor import Tensor
from smolder.utils.data.collate import rebuilt

__all__ = ["pin_memory"]


def pin_memory(data, device=None):
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
