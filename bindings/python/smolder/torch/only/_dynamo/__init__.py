"""torch._dynamo: what of it is smolder.compile's, under its name."""

from smolder._core import _note_break
from smolder.compiler import (
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    list_backends,
    register_backend,
    reset,
    substitute_in_graph,
)
from smolder.compiler import compile as _compile
from smolder.compiler._module import OptimizedModule
from smolder.torch.only._dynamo import config, eval_frame, exc, utils

__all__ = [
    "OptimizedModule", "allow_in_graph", "assume_constant_result", "config", "disable", "disallow_in_graph",
    "eval_frame", "exc", "forbid_in_graph", "graph_break", "is_compiling", "list_backends", "mark_dynamic", "mark_static",
    "mark_static_address", "mark_unbacked", "maybe_mark_dynamic", "optimize", "register_backend", "reset",
    "substitute_in_graph", "utils",
]  # fmt: skip


def optimize(backend="smolder", *, nopython=False, disable=False, dynamic=None, **options):
    """A decorator: smolder.compile with that backend. There is no inductor, which stands for Smolder's own."""
    if options:
        raise NotImplementedError(f"torch._dynamo.optimize: {', '.join(options)} is not supported")
    if backend == "inductor":
        backend = "smolder"
    return lambda f: _compile(f, backend=backend, fullgraph=nopython, disable=disable, dynamic=dynamic)


def optimize_assert(backend="smolder", **options):
    """The same for a function that may have no break."""
    return optimize(backend, nopython=True, **options)


def disallow_in_graph(fn):
    """As disable: calls of the function are part of no recorded step."""
    return disable(fn)


forbid_in_graph = disallow_in_graph


def graph_break(msg=""):
    """Breaks the recording here."""
    _note_break(msg or "torch._dynamo.graph_break()")


def _sizes_are_found(name):
    def mark(t, index=None, **bounds):
        pass

    mark.__name__ = mark.__qualname__ = name
    mark.__doc__ = "Says how a size may vary. Smolder finds sizes that vary by itself: the hint changes nothing."
    return mark


mark_dynamic = _sizes_are_found("mark_dynamic")
maybe_mark_dynamic = _sizes_are_found("maybe_mark_dynamic")
mark_static = _sizes_are_found("mark_static")
mark_unbacked = _sizes_are_found("mark_unbacked")


def mark_static_address(t, guard=True):
    """Says that a tensor stays where it is in memory. Smolder moves none that a recorded step reads: this changes nothing."""
