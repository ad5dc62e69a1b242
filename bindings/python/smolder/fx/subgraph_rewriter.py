"""Replaces parts of a graph that look like a pattern."""

from __future__ import annotations

import copy
import dataclasses
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from smolder._names import listing as _listing
from smolder.fx._symbolic_trace import symbolic_trace
from smolder.fx.graph import Graph
from smolder.fx.graph_module import GraphModule
from smolder.fx.node import Node
from smolder.nn.module import Module

if TYPE_CHECKING:
    from smolder.fx.passes.utils.matcher_utils import InternalMatch

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]
__dir__ = _listing(__name__)


class Match(typing.NamedTuple):
    """A part that was replaced: the pattern's last node, and by node of the pattern the node that it was."""

    anchor: Node
    nodes_map: dict[Node, Any]


@dataclasses.dataclass
class ReplacedPatterns:
    """The same, with the nodes that took its place."""

    anchor: Node
    nodes_map: dict[Node, Any]
    replacements: list[Node]


def replace_pattern(
    gm: GraphModule, pattern: Callable[..., Any] | Graph, replacement: Callable[..., Any] | Graph
) -> list[Match]:
    """Replaces in a GraphModule each part that looks like `pattern` by `replacement`: functions, modules or graphs of as
    many inputs and results. Returns the matches; of those that overlap, the first."""
    return [Match(m.anchor, m.nodes_map) for m in replace_pattern_with_filters(gm, pattern, replacement)]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Callable[..., Any] | Graph,
    replacement: Callable[..., Any] | Graph | None = None,
    match_filters: list[Callable[[InternalMatch, Graph, Graph], bool]] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """The same of parts for which every filter(match, graph, graph of the pattern) is true; replacement_callback, called
    alike, makes the graph of the replacement for each."""
    from smolder.fx.passes.utils.matcher_utils import SubgraphMatcher

    graph, wanted = gm.graph, _graph_of(pattern)
    matcher = SubgraphMatcher(wanted, ignore_literals=ignore_literals)
    found = matcher.match(graph, node_name_match=node_name_match)
    found = [m for m in found if all(keeps(m, graph, wanted) for keeps in match_filters or ())]
    if replacement is None and replacement_callback is None:
        raise AssertionError("Must provide either a replacement GraphModule or a replacement callback")
    common = None if replacement is None else _graph_of(replacement)
    out, changed = [], {}
    for match in found:
        new = common if replacement_callback is None else replacement_callback(match, graph, wanted)
        out.append(_replace(graph, match, wanted, new, changed))
    gm.recompile()
    if isinstance(replacement, Module):
        _take_members(gm, replacement)
    return out


def _graph_of(pattern):
    if isinstance(pattern, Graph):
        return pattern
    return pattern.graph if isinstance(pattern, GraphModule) else symbolic_trace(pattern).graph


def _replace(graph, match, wanted, new, changed):
    """Puts the replacement in the place of a match. `changed` says what became of nodes that were replaced before."""
    inputs = [n for n in new.nodes if n.op == "placeholder"]
    if len(match.placeholder_nodes) != len(inputs):
        raise AssertionError(f"Placeholder count mismatch: {len(match.placeholder_nodes)} vs {len(inputs)}")

    def now(value):
        return changed.get(value, value) if isinstance(value, Node) else value

    match.placeholder_nodes = [now(v) for v in match.placeholder_nodes]
    match.nodes_map = {n: now(v) if n.op == "placeholder" else v for n, v in match.nodes_map.items()}
    stands_for = dict(zip(inputs, match.placeholder_nodes, strict=True))
    with graph.inserting_before(_place_of(graph, match.returning_nodes)):
        made = graph.graph_copy(new, stands_for)
    results = (made,) if isinstance(made, Node) else made
    added = [n for n in stands_for.values() if not any(n is p for p in match.placeholder_nodes)]
    if len(match.returning_nodes) != len(results):
        raise AssertionError(f"Returning nodes count mismatch: {len(match.returning_nodes)} vs {len(results)}")
    for old, result in zip(match.returning_nodes, results, strict=True):
        old.replace_all_uses_with(result)
        changed[old] = result
    for node in reversed(wanted.nodes):
        if node.op not in ("placeholder", "output"):
            graph.erase_node(match.nodes_map[node])
    return ReplacedPatterns(match.anchors[0], match.nodes_map, added)


def _place_of(graph, results):
    """The node before which a replacement is put: the first that reads a result, or else the one after the results."""
    users = {user for result in results for user in result.users}
    if users:
        return next(n for n in graph.nodes if n in users)
    following = None
    for node in reversed(graph.nodes):
        if node in results:
            break
        following = node
    if following is None:
        raise AssertionError("The insert point can't be None")
    return following


def _take_members(gm, replacement):
    """Gives a module what nodes that came from the replacement name in it."""
    gm.delete_all_unused_submodules()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr") or _member(gm, node.target) is not None:
            continue
        found = _member(replacement, node.target)
        if found is None:
            raise RuntimeError(
                f'Attempted to create a "{node.op}" node during subgraph rewriting with target {node.target}, but the '
                "referenced attribute does not exist in the replacement GraphModule"
            )
        found = copy.deepcopy(found)
        if isinstance(found, Module):
            gm.add_submodule(node.target, found)
        else:
            setattr(gm, node.target, found)
    gm.graph.lint()


def _member(module, path):
    of, _, name = path.rpartition(".")
    try:
        return getattr(module.get_submodule(of), name, None)
    except AttributeError:
        return None
