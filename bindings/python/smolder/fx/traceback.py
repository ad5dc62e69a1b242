"""Metadata of nodes, which a graph made of another keeps."""

from __future__ import annotations

import contextlib
import functools
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from smolder._names import listing as _listing
from smolder._typing import F

if TYPE_CHECKING:
    from smolder.fx.node import Node

__all__ = [
    "annotate",
    "annotate_fn",
    "format_stack",
    "get_current_meta",
    "has_preserved_node_meta",
    "preserve_node_meta",
    "set_current_meta",
    "set_stack_trace",
]
__dir__ = _listing(__name__)

current_meta: dict[str, Any] = {}
should_preserve_node_meta: bool = False
_COPIED = ("nn_module_stack", "torch_fn", "source_fn_stack", "original_aten", "recompute", "from_node", "custom")


@contextlib.contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """Within it, nodes that are made are given what is current: stack traces, modules, annotations."""
    global should_preserve_node_meta, current_meta
    before, meta = should_preserve_node_meta, current_meta
    should_preserve_node_meta, current_meta = enable, dict(meta)
    try:
        yield
    finally:
        should_preserve_node_meta, current_meta = before, meta


def has_preserved_node_meta() -> bool:
    """Whether nodes that are made are given what is current."""
    return should_preserve_node_meta


def get_current_meta() -> dict[str, Any]:
    """The metadata for the nodes being made."""
    return current_meta


def set_stack_trace(stack: list[str]) -> None:
    """Makes a stack trace the current one."""
    if should_preserve_node_meta and stack:
        current_meta["stack_trace"] = "".join(stack)


def format_stack() -> list[str]:
    """The current stack trace, or else where this is called."""
    if should_preserve_node_meta:
        return [current_meta.get("stack_trace", "")]
    return traceback.format_list(traceback.extract_stack()[:-1])


@contextlib.contextmanager
def set_current_meta(node: Node, pass_name: str = "") -> Iterator[None]:
    """Within it, what is known of a node is current."""
    global current_meta
    if not should_preserve_node_meta or not node.meta:
        yield
        return
    before, current_meta = current_meta, dict(node.meta)
    try:
        yield
    finally:
        current_meta = before


@contextlib.contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """Within it, nodes that are made have these under `custom` in their meta, besides those of contexts around."""
    global current_meta
    before = current_meta
    current_meta = {**before, "custom": {**before.get("custom", {}), **annotation_dict}}
    try:
        yield
    finally:
        current_meta = before


def annotate_fn(annotation_dict: dict[str, Any]) -> Callable[[F], F]:
    """The same, of what a function does. Decorates."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*args, **kwargs):
            with annotate(annotation_dict):
                return function(*args, **kwargs)

        return call

    return decorate


def fill(node: Node) -> None:
    """Gives a node that was made what is current."""
    if current_meta.get("stack_trace"):
        node.stack_trace = current_meta["stack_trace"]
    node.meta.update({key: current_meta[key] for key in _COPIED if key in current_meta})
