"""GraphModules whose code is written when it runs, in torch. Here it is written at once, which takes microseconds a node."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from smolder._names import listing as _listing
from smolder.fx.graph_module import GraphModule

__all__: list[str] = []
__dir__ = _listing(__name__)

_LazyGraphModule = GraphModule


def _make_graph_module(*args: Any, graph_module_cls: type | None = None, **kwargs: Any) -> GraphModule:
    """A GraphModule, or one of a class derived from it."""
    return (graph_module_cls or GraphModule)(*args, **kwargs)


@contextlib.contextmanager
def _use_lazy_graph_module(should_use: bool) -> Iterator[None]:
    """Changes nothing."""
    yield


_force_skip_lazy_graph_module = contextlib.nullcontext
