"""Tools that passes are made of."""

from __future__ import annotations

from smolder._names import listing as _listing

__all__: list[str] = []
__dir__ = _listing(__name__)
