"""torch.export's names for captured graphs. What is exported is a `smolder.Graph`, which is called itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from smolder import _graph
from smolder._names import listing as _listing

if TYPE_CHECKING:
    from smolder._typing import Graph, Module

__all__ = ["Dim", "ExportedProgram", "export", "load", "save"]
__dir__ = _listing(__name__)

ExportedProgram = _graph.Graph


class Dim:
    """A size that may differ from run to run, from `min` to `max`."""

    __name__: str
    min: int | None
    max: int | None

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"a Dim's name is an identifier, got {name!r}")
        if min is not None and max is not None and min > max:
            raise ValueError(f"Dim {name}: min {min} is more than max {max}")
        self.__name__, self.min, self.max = name, min, max

    def __repr__(self) -> str:
        return f"Dim({self.__name__!r}, min={self.min}, max={self.max})"


def export(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
) -> Graph:
    """The graph of what `mod` does with these arguments: `smolder.capture`. `strict` is torch's, and changes nothing:
    nothing is ever assumed of a program that was not seen."""
    if not isinstance(args, tuple):
        raise TypeError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    return _graph.capture(mod, *args, dynamic_shapes=dynamic_shapes, **(kwargs or {}))


def save(ep: Graph, f: Callable[..., Any]) -> None:
    """Writes a graph to the file of that name."""
    if not isinstance(f, str | os.PathLike):
        raise NotImplementedError("smolder.export.save writes to a path; a file object is not supported")
    ep.save(f)


def load(f: Callable[..., Any]) -> Graph:
    """The graph of a file."""
    if not isinstance(f, str | os.PathLike):
        raise NotImplementedError("smolder.export.load reads from a path; a file object is not supported")
    return _graph.load_graph(f)
