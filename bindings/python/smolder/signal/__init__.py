"""Signals: their windows."""

from smolder._names import listing as _listing
from smolder.signal import windows as windows

__all__ = ["windows"]
__dir__ = _listing(__name__)
