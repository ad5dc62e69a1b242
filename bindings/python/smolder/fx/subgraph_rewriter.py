"""Replaces parts of a graph that look like a pattern."""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING

from smolder._names import listing as _listing
from smolder.fx._symbolic_trace import symbolic_trace
from smolder.fx.graph import Graph
from smolder.fx.node import Node

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from smolder.fx.graph_module import GraphModule

__all__ = ["Match", "replace_pattern"]
__dir__ = _listing(__name__)


class Match(typing.NamedTuple):
    """A part that was replaced: its last node, and by node of the pattern the node that it was."""

    anchor: Node
    nodes_map: dict[Node, Any]


def _graph_of(pattern):
    return pattern if isinstance(pattern, Graph) else getattr(pattern, "graph", None) or symbolic_trace(pattern).graph


def _matches(wanted, node, found):
    """Whether a node is what a node of the pattern wants, with all that it reads; fills `found`."""
    if wanted in found:
        return found[wanted] is node
    if wanted.op == "placeholder":
        found[wanted] = node
        return True
    if not isinstance(node, Node) or (wanted.op, wanted.target) != (node.op, node.target):
        return False
    found[wanted] = node
    return _same_arguments(wanted.args, node.args, found) and _same_arguments(wanted.kwargs, node.kwargs, found)


def _same_arguments(wanted, given, found):
    if isinstance(wanted, Node):
        return _matches(wanted, given, found)
    if isinstance(wanted, tuple | list):
        same = isinstance(given, tuple | list) and len(wanted) == len(given)
        return same and all(_same_arguments(a, b, found) for a, b in zip(wanted, given, strict=True))
    if isinstance(wanted, dict):
        same = isinstance(given, dict) and wanted.keys() == given.keys()
        return same and all(_same_arguments(wanted[k], given[k], found) for k in wanted)
    return type(wanted) is type(given) and wanted == given


def _is_closed(found, anchor):
    """Whether nothing outside reads what the part computes on the way."""
    inside = [node for wanted, node in found.items() if wanted.op != "placeholder"]
    return all(node is anchor or all(user in inside for user in node.users) for node in inside)


def replace_pattern(
    gm: GraphModule, pattern: Callable[..., Any] | Graph, replacement: Callable[..., Any] | Graph
) -> list[Match]:
    """Replaces in a GraphModule each part that looks like `pattern` by `replacement`: functions, modules or graphs of as
    many inputs and of one output. Returns the matches."""
    wanted, new = _graph_of(pattern), _graph_of(replacement)
    last = wanted.output_node().args[0]
    if not isinstance(last, Node) or last.op == "placeholder":
        raise NotImplementedError("replace_pattern: a pattern has to return the value of one operation")
    inputs = [n for n in wanted.nodes if n.op == "placeholder"]
    new_inputs = [n for n in new.nodes if n.op == "placeholder"]
    if len(inputs) != len(new_inputs):
        raise ValueError(f"replace_pattern: the pattern has {len(inputs)} inputs and the replacement {len(new_inputs)}")
    matches, used = [], set()
    for node in list(gm.graph.nodes):
        found = {}
        if node._erased or not _matches(last, node, found) or not _is_closed(found, node):
            continue
        inside = {n for w, n in found.items() if w.op != "placeholder"}
        if inside & used:
            continue
        used |= inside
        matches.append(Match(node, found))
    for match in matches:
        _replace(gm.graph, match, inputs, new, new_inputs)
    gm.graph.lint()
    gm.recompile()
    return matches


def _replace(graph, match, inputs, new, new_inputs):
    stands_for = {made: match.nodes_map[given] for made, given in zip(new_inputs, inputs, strict=True)}
    with graph.inserting_before(match.anchor):
        out = graph.graph_copy(new, stands_for)
    match.anchor.replace_all_uses_with(out)
    for wanted, node in reversed(list(match.nodes_map.items())):
        if wanted.op != "placeholder" and not node._erased and not node.users:
            graph.erase_node(node)
    for wanted, node in match.nodes_map.items():
        if wanted.op not in ("placeholder", "output") and not node._erased and not node.users:
            graph.erase_node(node)
