"""Torch's marks for NVIDIA's profilers, which raise: kernels are named after their ops, so profiles tell what ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smolder._names import listing as _listing
from smolder.cuda._refused import refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]
__dir__ = _listing(__name__)


_WHY = "kernels are named after the ops that they run"
mark: Callable[..., Any] = refused("cuda.nvtx.mark", _WHY)
range: Callable[..., Any] = refused("cuda.nvtx.range", _WHY)
range_end: Callable[..., Any] = refused("cuda.nvtx.range_end", _WHY)
range_pop: Callable[..., Any] = refused("cuda.nvtx.range_pop", _WHY)
range_push: Callable[..., Any] = refused("cuda.nvtx.range_push", _WHY)
range_start: Callable[..., Any] = refused("cuda.nvtx.range_start", _WHY)
