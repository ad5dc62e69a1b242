"""A mark of functions that torch says it keeps, or does not."""

from __future__ import annotations

from collections.abc import Callable

from smolder._names import listing as _listing
from smolder._typing import T

__all__ = ["compatibility"]
__dir__ = _listing(__name__)


def compatibility(is_backward_compatible: bool) -> Callable[[T], T]:
    """Decorates nothing: what is here is kept as docs/versioning.md says."""
    return lambda fn: fn
