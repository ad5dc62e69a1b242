"""Flattening nested arguments in a form that is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smolder._names import listing as _listing
from smolder.utils._pytree import TreeSpec, tree_flatten

__all__ = ["register_pytree_flatten_spec", "tree_flatten_spec"]
__dir__ = _listing(__name__)

SUPPORTED_NODES: dict[type, Callable[[Any, TreeSpec], list[Any]]] = {
    dict: lambda d, spec: [d[key] for key in spec.context],
    list: lambda d, spec: [d[i] for i in range(spec.num_children)],
    tuple: lambda d, spec: [d[i] for i in range(spec.num_children)],
}
SUPPORTED_NODES_EXACT_MATCH: dict[type, Any] = dict.fromkeys(SUPPORTED_NODES)


def register_pytree_flatten_spec(
    cls: type, flatten_fn_spec: Callable[[Any, TreeSpec], list[Any]], flatten_fn_exact_match_spec: Any = None
) -> None:
    """Says how instances of a class come apart in a form: flatten_fn_spec(x, spec) is the list of their parts."""
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def tree_flatten_spec(pytree: Any, spec: TreeSpec) -> list[Any]:
    """The leaves of a tree of a form; RuntimeError where it is of another."""
    if spec.is_leaf():
        return [pytree]
    if spec.type in SUPPORTED_NODES:
        out = []
        parts = SUPPORTED_NODES[spec.type](pytree, spec)
        for part, child in zip(parts, spec.children(), strict=False):
            out += tree_flatten_spec(part, child)
        return out
    leaves, found = tree_flatten(pytree)
    if found != spec:
        raise RuntimeError(f"Real spec {found} of object {pytree} is different from expected spec {spec}.")
    return leaves
