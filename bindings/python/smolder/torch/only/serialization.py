"""A function of torch.serialization that programs call which read files themselves."""

import importlib
from typing import Any

from smolder._names import listing as _listing

__all__ = ["normalize_storage_type"]
__dir__ = _listing(__name__)


def normalize_storage_type(storage_type: type) -> Any:
    """The class of storages of that class's name."""
    return getattr(importlib.import_module("torch"), storage_type.__name__)
