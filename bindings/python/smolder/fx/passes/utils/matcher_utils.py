"""Parts of a graph that look like a pattern."""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING, Any

from smolder import _core
from smolder._names import listing as _listing
from smolder.fx.graph_module import _get_attr
from smolder.fx.node import Node

if TYPE_CHECKING:
    from smolder.fx.graph import Graph

__all__ = ["InternalMatch", "SubgraphMatcher"]
__dir__ = _listing(__name__)


@dataclasses.dataclass
class InternalMatch:
    """A part that was found: by node of the pattern what it was, and the nodes of its inputs and results."""

    anchors: list[Node]
    nodes_map: dict[Node, Any] = dataclasses.field(default_factory=dict)
    placeholder_nodes: list[Any] = dataclasses.field(default_factory=list)
    returning_nodes: list[Any] = dataclasses.field(default_factory=list)
    name_node_map: dict[str, Node] = dataclasses.field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        lists = list(self.placeholder_nodes), list(self.returning_nodes)
        return InternalMatch(self.anchors, dict(self.nodes_map), *lists)


class SubgraphMatcher:
    """Finds a pattern in graphs, from its results backwards. Inputs of the pattern match anything, unless match_placeholder
    says they match inputs; numbers and strings match equal ones, unless ignore_literals."""

    pattern: Graph
    match_output: bool
    match_placeholder: bool
    remove_overlapping_matches: bool
    ignore_literals: bool
    pattern_placeholder_nodes: list[Node]
    pattern_returning_nodes: list[Node]
    pattern_anchors: list[Node]

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        self.pattern, self.match_output, self.match_placeholder = pattern, match_output, match_placeholder
        self.remove_overlapping_matches, self.ignore_literals = remove_overlapping_matches, ignore_literals
        if len(pattern.nodes) == 0:
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        for node in pattern.nodes:
            if node.op != "output" and not node.users and not node.is_impure():
                raise AssertionError("SubgraphMatcher cannot be initialized with an pattern with dead code")
        output = pattern.output_node()
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        self.pattern_returning_nodes = output.all_input_nodes
        sinks = [n for n in output.all_input_nodes if len(n.users) == 1]
        self.pattern_anchors = [output] if match_output else sinks

    # -- one node

    def _nodes_are_equal(self, pn, gn, node_name_match=""):
        if not self.match_placeholder and pn.op == "placeholder":
            return True
        if node_name_match and node_name_match in gn.name:
            return True
        if pn.op != gn.op:
            return False
        if pn.op == "get_attr":  # values may differ
            a, b = (_get_attr(n.graph.owning_module, n.target) for n in (pn, gn))
            return type(a) is type(b) and isinstance(a, _core.Tensor)
        return pn.op in ("placeholder", "output") or pn.target == gn.target

    def _match_nodes(self, pn, gn, match, node_name_match=""):
        """Whether a node is what a node of the pattern wants, with all that it reads; notes what it finds."""
        if pn in match.nodes_map:
            return match.nodes_map[pn] is gn
        if any(gn is found for found in match.nodes_map.values()) or not self._nodes_are_equal(pn, gn, node_name_match):
            return False
        match.nodes_map[pn] = gn
        if pn.op == "placeholder":
            return True
        if len(pn.args) != len(gn.args) or list(pn.kwargs) != list(gn.kwargs):
            return False
        wanted, given = [*pn.args, *pn.kwargs.values()], [*gn.args, *gn.kwargs.values()]
        return self._match_lists(wanted, given, match)

    def _match_lists(self, wanted, given, match):
        return len(wanted) == len(given) and all(
            self._match_values(a, b, match) for a, b in zip(wanted, given, strict=True)
        )

    def _match_values(self, wanted, given, match):
        if isinstance(wanted, Node) and isinstance(given, Node):
            return self._match_nodes(wanted, given, match)
        if isinstance(wanted, list | tuple) and isinstance(given, list | tuple):
            return self._match_lists(wanted, given, match)
        return self._match_literal(wanted, given, match) or self.ignore_literals

    def _match_literal(self, wanted, given, match):
        if isinstance(given, Node):
            return False
        if isinstance(wanted, Node):
            if wanted.op != "placeholder":
                return False
            if wanted not in match.nodes_map:
                match.nodes_map[wanted] = given
                return True
            wanted = match.nodes_map[wanted]
        return type(wanted) is type(given) and wanted == given

    # -- the whole

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The parts of a graph that look like the pattern, of which nothing else reads what is on the way."""
        candidates = []
        for anchor in self.pattern_anchors:
            found = [n for n in graph.nodes if self._nodes_are_equal(anchor, n, node_name_match)]
            if found:
                candidates.append((anchor, found))
        matches: list[InternalMatch] = []

        def search(match, depth):
            if depth == len(candidates):
                match.placeholder_nodes = [match.nodes_map[n] for n in self.pattern_placeholder_nodes]
                match.returning_nodes = [match.nodes_map[n] for n in self.pattern_returning_nodes]
                matches.append(match)
                return
            anchor, nodes = candidates[depth]
            for node in nodes:
                attempt = copy.copy(match)
                if self._match_nodes(anchor, node, attempt, node_name_match):
                    search(attempt, depth + 1)

        if candidates:
            search(InternalMatch(anchors=self.pattern_anchors), 0)
        matches = [m for m in matches if self._is_contained(m) and not _is_read_between(_computed(m))]
        return self._first_of_overlapping(matches) if self.remove_overlapping_matches else matches

    def _is_contained(self, match):
        inside = {gn: pn for pn, gn in match.nodes_map.items() if pn.op != "placeholder"}
        return all(
            pn in self.pattern_returning_nodes or all(user in inside for user in gn.users) for gn, pn in inside.items()
        )

    @staticmethod
    def _first_of_overlapping(matches):
        out, taken = [], set()
        for match in matches:
            nodes = _computed(match)
            if not taken.intersection(nodes):
                out.append(match)
                taken.update(nodes)
        return out


def _computed(match):
    return [gn for pn, gn in match.nodes_map.items() if pn.op not in ("placeholder", "output")]


def _is_read_between(nodes):
    """Whether one of the nodes depends on another by way of nodes that are not among them."""
    inside, seen = set(nodes), set()
    queue = [user for node in nodes for user in node.users if user not in inside]
    while queue:
        node = queue.pop()
        if node in inside:
            return True
        if node not in seen:
            seen.add(node)
            queue.extend(node.users)
    return False
