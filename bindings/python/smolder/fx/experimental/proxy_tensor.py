"""Graphs of what a function does with tensors, below its modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from smolder._names import listing as _listing

if TYPE_CHECKING:
    from smolder.fx.graph_module import GraphModule

__all__ = ["make_fx"]
__dir__ = _listing(__name__)


def make_fx(
    f: Callable[..., Any],
    decomposition_table: Any = None,
    tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False,
    **options: Any,
) -> Callable[..., GraphModule]:
    """A function of example arguments: the GraphModule of the ops that f, a function or a module, records for them.

    It is fx.from_captured of smolder.capture, whose ops are Smolder's and no others: decomposition_table has to be empty.
    tracing_mode "symbolic" is refused, as sizes are numbers; "fake" is "real", since values are never seen.
    """
    if decomposition_table:
        raise NotImplementedError("make_fx: decomposition_table is not supported: ops of the graph are Smolder's")
    if tracing_mode not in ("real", "fake"):
        raise NotImplementedError(f"make_fx: tracing_mode={tracing_mode!r} is not supported: sizes are numbers")

    def wrapped(*args: Any, **kwargs: Any) -> GraphModule:
        from smolder import capture
        from smolder.fx.captured import from_captured

        return from_captured(capture(f, *args, **kwargs))

    return wrapped
