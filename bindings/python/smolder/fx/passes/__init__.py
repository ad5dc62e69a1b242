"""Passes over graphs: what values are like, and graphs of parts."""

from __future__ import annotations

from smolder._names import listing as _listing
from smolder.fx.passes import shape_prop, split_module

__all__ = ["shape_prop", "split_module"]
__dir__ = _listing(__name__)
