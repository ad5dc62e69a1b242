"""Graphs of what a module's Python does: traced with stand-ins for values, changed, and made a module again.

`symbolic_trace` runs a function on proxies, so it sees no values: smolder.capture and smolder.compile record what runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smolder._names import listing as _listing
from smolder.fx._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from smolder.fx.captured import from_captured
from smolder.fx.graph import CodeGen, Graph
from smolder.fx.graph_module import GraphModule
from smolder.fx.interpreter import Interpreter, Transformer
from smolder.fx.node import Node, has_side_effect, map_arg
from smolder.fx.proxy import Proxy
from smolder.fx.subgraph_rewriter import replace_pattern

__all__ = [
    "PH",
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "ProxyableClassMeta",
    "Tracer",
    "Transformer",
    "from_captured",
    "has_side_effect",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]
__dir__ = _listing(__name__)

if not TYPE_CHECKING:  # to a checker, a module with this function has every name

    def __getattr__(name):
        from smolder._missing import missing

        raise missing(__name__, name)
