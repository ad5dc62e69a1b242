"""The type of a value, noted while it is traced."""

from __future__ import annotations

from typing import Any

from smolder._names import listing as _listing
from smolder._typing import T
from smolder.fx.proxy import Proxy

__all__ = ["annotate"]
__dir__ = _listing(__name__)


def annotate(val: T, type: Any) -> T:
    """The value; where it is a proxy, its node has the type."""
    if isinstance(val, Proxy):
        if val.node.type:
            raise RuntimeError(
                f"Tried to annotate a value that already had a type on it! Existing type is {val.node.type}"
            )
        val.node.type = type
    return val
