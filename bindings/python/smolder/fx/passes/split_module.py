"""Divides a graph into graphs of parts, each a module."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from smolder._names import listing as _listing
from smolder.fx.graph import Graph
from smolder.fx.graph_module import GraphModule, _get_attr
from smolder.fx.node import map_arg
from smolder.fx.proxy import Proxy
from smolder.nn.module import Module

if TYPE_CHECKING:
    from smolder.fx.node import Node

__all__ = ["Partition", "split_module"]
__dir__ = _listing(__name__)


class Partition:
    """A part: its nodes, the names of what it reads of others and they of it, and its graph."""

    name: str
    submod_name: str
    graph: Graph

    def __init__(self, name: str) -> None:
        self.name, self.submod_name = name, f"submod_{name}"
        self.node_names: list[str] = []
        self.inputs: dict[str, None] = {}
        self.outputs: dict[str, None] = {}
        self.dependencies: dict[str, None] = {}
        self.dependents: dict[str, None] = {}
        self.graph = Graph()
        self.environment: dict[Node, Any] = {}
        self.targets: dict[str, Any] = {}

    def __repr__(self) -> str:
        return (
            f"name: {self.name},\n nodes: {self.node_names},\n inputs: {self.inputs},\n outputs: {self.outputs},\n"
            f" partitions depended on: {self.dependencies},\n partition dependents: {self.dependents}"
        )


def split_module(
    m: GraphModule,
    root_m: Module,
    split_callback: Callable[[Node], int],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
) -> GraphModule:
    """A module that does what a GraphModule does, whose parts are modules `submod_N`; split_callback(node) is N.

    qualname_map is filled with the path of each module and attribute of a part in the original. root_m is torch's, and is
    not used. Raises RuntimeError where parts would need each other.
    """
    return _Split(m, split_callback, qualname_map, keep_original_node_name, keep_original_input_name).made(
        partition_affix, keep_original_order
    )


_READ = ("placeholder", "get_attr")


class _Split:
    def __init__(self, module, choose, names_map, keep_names, keep_inputs):
        self.module, self.choose, self.names_map = module, choose, names_map
        self.keep_names, self.keep_inputs = keep_names, keep_inputs
        self.parts: dict[str, Partition] = {}
        self.of: dict[Node, str] = {}  # the name of the part that a node is in
        self.named = {node.name: node for node in module.graph.nodes}
        self.base, self.base_nodes, self.base_members = Graph(), {}, {}

    def made(self, affix, keep_order):
        for node in self.module.graph.nodes:
            if node.op not in (*_READ, "output"):
                name = str(self.choose(node)) if affix is None else f"{affix}_{self.choose(node)}"
                self.parts.setdefault(name, Partition(name)).node_names.append(node.name)
                self.of[node] = name
        for node in self.module.graph.nodes:
            if node.op not in _READ:
                for read in node.all_input_nodes:
                    self._note_use(read, None if node.op == "output" else node)
        order = self._in_order()
        for name in order:
            self._add_inputs(self.parts[name])
        for node, name in self.of.items():
            self._add(node, self.parts[name])
        self._add_base(list(self.parts) if keep_order else order, keep_order)
        return GraphModule(self.base_members, self.base)

    def _note_use(self, read, node):
        defined, used = self.of.get(read), self.of.get(node)
        if defined == used:
            return
        if defined is not None:
            self.parts[defined].outputs.setdefault(read.name)
            if used is not None:
                self.parts[defined].dependents.setdefault(used)
        if used is not None:
            self.parts[used].inputs.setdefault(read.name)
            if defined is not None:
                self.parts[used].dependencies.setdefault(defined)

    def _in_order(self):
        """The names of the parts, each after those that it reads of."""
        ready = [name for name, part in self.parts.items() if not part.dependencies]
        out = []
        while ready:
            out.append(ready.pop())
            for name in self.parts[out[-1]].dependents:
                self.parts[name].dependencies.pop(out[-1])
                if not self.parts[name].dependencies:
                    ready.append(name)
        if len(out) != len(self.parts):
            raise RuntimeError("cycle exists between partitions!")
        return out

    def _add_inputs(self, part):
        inputs = {}
        for name in part.inputs:
            node = self.named[name]
            value = _get_attr(self.module, node.target) if node.op == "get_attr" else None
            if isinstance(value, Module):
                made = part.graph.get_attr(node.target)
                part.targets[node.target] = value
            else:
                made = part.graph.placeholder(name if self.keep_inputs else f"arg_{len(inputs)}", type_expr=node.type)
                inputs[name] = None
            made.meta = node.meta.copy()
            part.environment[node] = made
        part.inputs = inputs

    def _add(self, node, part):
        args, kwargs = map_arg((node.args, node.kwargs), part.environment.__getitem__)
        target = node.target
        if node.op == "call_module":
            target = node.target.replace(".", "_")
            part.targets[target] = _get_attr(self.module, node.target)
            if self.names_map is not None:
                self.names_map[f"{part.submod_name}.{target}"] = node.target
        name = node.name if self.keep_names else None
        made = part.graph.create_node(node.op, target, args, dict(kwargs), name, node.type)
        made.meta = node.meta.copy()
        part.environment[node] = made

    # -- the graph that calls the parts

    def _add_base(self, names, keep_order):
        reads = [n for n in self.module.graph.nodes if n.op in _READ]
        for node in reads:
            if not keep_order or node.op == "placeholder":
                self._add_read(node)
        for name in names:
            part = self.parts[name]
            results = tuple(part.environment[self.named[n]] for n in part.outputs)
            part.graph.output(results[0] if len(results) == 1 else results)
            for n in part.inputs:
                if self.named[n].op == "get_attr":
                    self._add_read(self.named[n])
            self.base_members[part.submod_name] = GraphModule(part.targets, part.graph)
            call = self.base.call_module(part.submod_name, tuple(self.base_nodes[n] for n in part.inputs))
            if len(results) == 1:
                self.base_nodes[next(iter(part.outputs))] = call
            else:
                for i, n in enumerate(part.outputs):
                    self.base_nodes[n] = Proxy(call)[i].node
        for node in reads:
            self._add_read(node)
        output = self.module.graph.output_node()
        self.base.output(map_arg(output.args[0], lambda n: self.base_nodes[n.name]))

    def _add_read(self, node):
        if node.name in self.base_nodes:
            return
        if node.op == "get_attr":
            made = self.base.get_attr(node.target)
            self.base_members[node.target] = _get_attr(self.module, node.target)
        elif self.keep_names:
            made = self.base.create_node("placeholder", node.name, tuple(node.args), type_expr=node.type)
        else:
            default = node.args[0] if node.args else inspect.Signature.empty
            made = self.base.placeholder(node.target, node.type, default)
        made.meta = node.meta.copy()
        self.base_nodes[node.name] = made
