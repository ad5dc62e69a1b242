"""Torch's graphs of CUDA, which programs need not ask for: a step that comes again is replayed as one by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smolder._names import listing as _listing
from smolder.cuda._refused import refused, refused_class

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]
__dir__ = _listing(__name__)


def is_current_stream_capturing() -> bool:
    """False: programs capture nothing themselves."""
    return False


_WHY = "a step that comes again is captured as a graph and replayed by itself"
CUDAGraph: Callable[..., Any] = refused_class("cuda.CUDAGraph", _WHY)
graph: Callable[..., Any] = refused_class("cuda.graph", _WHY)
graph_pool_handle: Callable[..., Any] = refused("cuda.graph_pool_handle", _WHY)
make_graphed_callables: Callable[..., Any] = refused("cuda.make_graphed_callables", _WHY)
