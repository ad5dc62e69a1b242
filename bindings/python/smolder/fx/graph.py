"""A graph: nodes in the order in which they run, and the code that they are."""

from __future__ import annotations

import contextlib
import copy
import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from smolder._names import listing as _listing
from smolder.fx import _codegen
from smolder.fx._codegen import CodeGen, PythonCode
from smolder.fx._codegen import PyTreeInfo as _PyTreeInfo
from smolder.fx._codegen import _PyTreeCodeGen as _PyTreeCodeGen
from smolder.fx._codegen import format_target as _format_target
from smolder.fx._codegen import inplace_methods as inplace_methods
from smolder.fx._codegen import magic_methods as magic_methods
from smolder.fx._codegen import reflectable_magic_methods as reflectable_magic_methods
from smolder.fx._naming import Namespace as _Namespace
from smolder.fx._naming import snake_case as _snake_case
from smolder.fx._naming import target_name
from smolder.fx._naming import type_repr as _type_repr
from smolder.fx.node import Node, _get_qualified_name, map_arg, typename
from smolder.fx.node import map_aggregate as map_aggregate

if TYPE_CHECKING:
    from smolder._typing import Module
    from smolder.fx.node import Target

__all__ = ["CodeGen", "Graph", "PythonCode"]
__dir__ = _listing(__name__)

_OTHERS = (_PyTreeInfo, _format_target, _snake_case, _type_repr, _get_qualified_name)  # names that programs ask for


class _Insertion(contextlib.AbstractContextManager):
    """Where nodes are put from when it is made; leaving it puts them where they were put before."""

    def __init__(self, graph, insert):
        self._graph, self._before = graph, graph._insert
        graph._insert = insert

    def __exit__(self, *exception):
        self._graph._insert = self._before


class Graph:
    """Nodes in order. What makes nodes puts them at the end, or where `inserting_before` and `inserting_after` say."""

    owning_module: Module | None

    def __init__(
        self,
        owning_module: Module | None = None,
        tracer_cls: type | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._numbered = False
        self._root = Node(self, "", "root", "", (), {})
        self._insert = self._root.prepend
        self._graph_namespace, self._len = _Namespace(), 0
        self.owning_module, self._tracer_cls, self._tracer_extras = owning_module, tracer_cls, tracer_extras
        self._codegen = CodeGen()
        self._co_fields: dict[str, Any] = {}

    # -- nodes

    @property
    def nodes(self) -> _node_list:
        """The nodes, in order, as a list that follows changes."""
        return _node_list(self)

    def _moved(self):
        self._numbered = False

    def _number_nodes(self):
        """Gives nodes numbers in their order, which they compare by."""
        if not self._numbered:
            for i, node in enumerate(self.nodes):
                node._sort_key = (i,)
            self._numbered = True

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The nodes of a kind, and of a target if one is given, in order."""
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def output_node(self) -> Node:
        """The node that says what is returned."""
        last = self._root.prev
        if last.op != "output":
            raise AssertionError(f"Expected output node, got op={last.op}")
        return last

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A node where nodes are put."""
        args, kwargs = () if args is None else args, {} if kwargs is None else kwargs
        if not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, got {type(args)}")
        if not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs)}")
        name = self._graph_namespace.create_name(name if name is not None else self._target_to_str(target))
        node = Node(self, name, op, target, args, kwargs, type_expr)
        self._graph_namespace.associate_name_with_obj(name, node)
        self._insert(node)
        self._len += 1
        return node

    @staticmethod
    def _target_to_str(target):
        return target_name(target)

    def erase_node(self, to_erase: Node) -> None:
        """Removes a node that none reads."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        to_erase._remove_from_list()
        to_erase._erased = True
        self._len -= 1
        to_erase._update_args_kwargs((), {})
        self._moved()

    def inserting_before(self, n: Node | None = None) -> AbstractContextManager[Any]:
        """From here, or within it, nodes are put before a node; before the first if there is none."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return _Insertion(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> AbstractContextManager[Any]:
        """From here, or within it, nodes are put just after a node; at the end if there is none."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return _Insertion(self, n.append)

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = inspect.Signature.empty) -> Node:
        """An input."""
        args = () if default_value is inspect.Signature.empty else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """A parameter, buffer or other attribute of the module, by its path."""
        if self.owning_module is not None and not _has_member(self.owning_module, qualified_name):
            warnings.warn(
                "Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule! Call "
                "GraphModule.add_submodule to add the necessary submodule, GraphModule.add_parameter to add the necessary "
                "Parameter, or nn.Module.register_buffer to add the necessary buffer",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A call of a module in the module, by its path."""
        if self.owning_module is not None:
            try:
                self.owning_module.get_submodule(module_name)
            except AttributeError:
                warnings.warn(
                    "Attempted to insert a call_module Node with no underlying reference in the owning GraphModule! Call "
                    "GraphModule.add_submodule to add the necessary submodule",
                    stacklevel=2,
                )
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """Adds the node of the result."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    # -- copies

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """A node like one of another graph; arg_transform(n) is what stands here for a node there."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        out = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        out.meta = copy.copy(node.meta)
        return out

    def graph_copy(self, g: Graph, val_map: dict[Node, Any], return_output_node: bool = False) -> Any:
        """Copies a graph's nodes here, but its output, and fills val_map; returns what stands for the output."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], val_map.__getitem__)
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        memo = {} if memo is None else memo
        out = Graph(tracer_cls=self._tracer_cls)
        val_map: dict[Node, Any] = {}
        result = out.graph_copy(self, val_map, return_output_node=True)
        memo.update({id(old): new for old, new in val_map.items()})
        if result is not None:
            node = out.output(result[0], getattr(result[1], "type", None))
            node.meta = copy.copy(result[1].meta)
            memo[id(result[1])] = node
        memo[id(self)] = out
        out._codegen, out._co_fields = copy.deepcopy(self._codegen), dict(self._co_fields)
        return out

    # -- the whole

    def lint(self) -> None:
        """Raises unless names are different, nodes are read after they ran, and what they name is in the module."""
        seen, names = set(), set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for read in node.all_input_nodes:
                self._check_read(read, node, seen)
            seen.add(node)
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
        if self.owning_module is not None:
            for node in self.nodes:
                self._check_target(node)

    def _check_read(self, read, node, seen):
        if read.graph is not self:
            raise RuntimeError(
                f"Argument '{read}' of Node '{node}' does not belong to this Graph, but was used as an argument! If you are "
                f"copying nodes from another graph, make sure to use ``arg_transform`` on node_copy() to remap values\n{self}"
            )
        if read not in seen:
            raise RuntimeError(
                f"Argument '{read}' of Node '{node}' was used before it has been defined! Please check that Nodes in the "
                f"graph are topologically ordered\n{self}"
            )

    def _check_target(self, node):
        wanted = "Callable" if node.op == "call_function" else "str"
        if not (callable(node.target) if node.op == "call_function" else isinstance(node.target, str)):
            raise ValueError(
                f"Node {node} target {node.target} has type {typename(node.target)} but a {wanted} is expected"
            )
        if node.op not in ("get_attr", "call_module"):
            return
        from smolder.nn import Module

        at, path = self.owning_module, node.target.split(".")
        for i, part in enumerate(path):
            of, at = ".".join(path[:i]), getattr(at, part, None)
            if at is None:
                raise RuntimeError(f"Node {node} target {node.target} references nonexistent attribute {part} of {of}")
            if node.op == "call_module" and not isinstance(at, Module):
                raise RuntimeError(f"Node {node} target {node.target} {part} of {of} does not reference an nn.Module")

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Removes nodes that none reads and that do nothing else; returns whether there were any."""
        self.lint()
        kept = is_impure_node or Node.is_impure
        before = self._len
        for node in reversed(self.nodes):
            if not node.users and not kept(node):
                self.erase_node(node)
        changed = self._len != before
        named = {node.target for node in self.find_nodes(op="get_attr")}
        for name, child in self.owning_module.named_children() if self.owning_module is not None else ():
            if name in named and hasattr(child, "graph"):
                changed |= child.graph.eliminate_dead_code()
                child.recompile()
        return changed

    def process_inputs(self, *args: Any) -> Any:
        """Arguments of the function as the placeholders take them."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """Returns the function's result, given the graph's output."""
        return self._codegen.process_outputs(out)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Writes code in another way."""
        self._codegen = codegen

    def on_generate_code(
        self, make_transformer: Callable[[Any], Callable[[list[str]], list[str]]]
    ) -> AbstractContextManager[None]:
        """Has the lines of code changed before they are compiled: make_transformer(what did so before) is a function of
        them. As a context, until it is left."""
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)

        @contextlib.contextmanager
        def until_left():
            try:
                yield
            finally:
                self._codegen._body_transformer = before

        return until_left()

    def python_code(
        self,
        root_module: str,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        record_func: bool = False,
        additional_meta: list[str] | None = None,
    ) -> PythonCode:
        """The source of a function that runs the graph, and what it names. verbose notes lines of the program and dtypes
        and shapes, where they are known; record_func changes nothing."""
        namespace, before = _Namespace(), {}
        for node in self.nodes:
            before[node], node._repr_fn = node._repr_fn, lambda n: namespace.create_name(n.name, n)
        try:
            return self._codegen._gen_python_code(
                self.nodes,
                root_module,
                namespace,
                verbose=verbose,
                include_stride=include_stride,
                include_device=include_device,
                colored=colored,
                expanded_def=expanded_def,
                record_func=record_func,
                additional_meta=additional_meta,
            )
        finally:
            for node, function in before.items():
                node._repr_fn = function

    def print_tabular(self) -> None:
        """Prints the nodes as a table."""
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [tuple(map(str, (n.op, n.name, n.target, n.args, n.kwargs))) for n in self.nodes]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        rows.insert(1, tuple("-" * w for w in widths))
        print("\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows))

    def __str__(self) -> str:
        return "graph():" + "".join(f"\n    {node.format_node()}" for node in self.nodes)


class _node_list:
    """A graph's nodes in order, or backwards. Nodes may be added and erased while they are gone through."""

    graph: Graph
    direction: str

    def __init__(self, graph: Graph, direction: str = "_next") -> None:
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        at = getattr(root, self.direction)
        while at is not root:
            if not at._erased:
                yield at
            at = getattr(at, self.direction)

    def __reversed__(self) -> _node_list:
        return _node_list(self.graph, "_next" if self.direction == "_prev" else "_prev")


def _has_member(module, path):
    from smolder.nn import Module, Parameter

    of, _, name = path.rpartition(".")
    try:
        holder = module.get_submodule(of)
    except AttributeError:
        warnings.warn(f"Failed to fetch module {of}!", stacklevel=3)
        return False
    found = getattr(holder, name, None)
    return isinstance(found, Module | Parameter) or name in holder._buffers


_custom_builtins = _codegen.custom_builtins
