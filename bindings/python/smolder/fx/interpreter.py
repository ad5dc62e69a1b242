"""Runs a graph node by node: to see values on the way, or to make another graph of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from smolder._names import listing as _listing
from smolder.fx import _patches
from smolder.fx import traceback as _fx_traceback
from smolder.fx._codegen import last_uses
from smolder.fx._symbolic_trace import Tracer
from smolder.fx.graph import Graph
from smolder.fx.graph_module import GraphModule
from smolder.fx.node import map_aggregate, map_arg
from smolder.fx.proxy import Proxy

if TYPE_CHECKING:
    from smolder._typing import Module
    from smolder.fx.node import Node

__all__ = ["Interpreter", "Transformer"]
__dir__ = _listing(__name__)


class Interpreter:
    """Runs a module's graph. Derived classes say what a kind of node does: `call_function`, `placeholder` and so on."""

    module: GraphModule
    graph: Graph
    submodules: dict[str, Module]
    env: dict[Node, Any]
    args_iter: Iterator[Any]
    extra_traceback: bool
    name: str
    garbage_collect_values: bool
    user_to_last_uses: dict[Node, list[Node]]

    def __init__(self, module: GraphModule, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module, self.submodules = module, dict(module.named_modules())
        self.graph = module.graph if graph is None else graph
        self.env, self.extra_traceback, self.name = {}, True, "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.user_to_last_uses = last_uses(self.graph.nodes) if garbage_collect_values else {}

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """Runs the graph on these arguments. Nodes in initial_env are not run, and have these values."""
        self.env = {} if initial_env is None else initial_env
        self.args_iter = iter(self.graph.process_inputs(*args) if enable_io_processing else args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    _say_where(error, node)
                    if isinstance(error, KeyError):
                        raise RuntimeError(*error.args) from error
                raise
            for done in self.user_to_last_uses.get(node, ()):
                del self.env[done]
            if node.op == "output":
                out = self.env[node]
                return self.graph.process_outputs(out) if enable_io_processing else out
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """The same of a list of arguments, which is emptied before they are used."""
        inputs = [n for n in self.graph.nodes if n.op == "placeholder"]
        if len(args_list) != len(inputs):
            detail = "extra arguments" if len(args_list) > len(inputs) else "missing arguments"
            raise RuntimeError(
                f"Interpreter.boxed_run expected {len(inputs)} arguments for placeholders but received {len(args_list)} "
                f"({detail})"
            )
        env = dict(zip(inputs, args_list, strict=True))
        args_list.clear()
        return self.run(initial_env=env)

    def run_node(self, n: Node) -> Any:
        """Runs a node; returns its result."""
        with _fx_traceback.set_current_meta(n, f"Interpreter_{type(self).__name__}"):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The next argument, or the default."""
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from None

    def get_attr(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An attribute of the module."""
        return self.fetch_attr(target)

    def call_function(self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a function."""
        return target(*args, **kwargs)

    def call_method(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a method of the first argument."""
        of, *rest = args
        return getattr(of, target)(*rest, **kwargs)

    def call_module(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a module within the module."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of the graph."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """The object at a path in the module."""
        at = self.module
        parts = target.split(".")
        for i, part in enumerate(parts):
            if not hasattr(at, part):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(parts[: i + 1])}")
            at = getattr(at, part)
        return at

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a node, with values for nodes."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Arguments with values for nodes."""

        def value(read):
            if read not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {read}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[read]

        return map_arg(args, value)


def _say_where(error, node):
    """Adds the node to what an error says."""
    text = f"While executing {node.format_node()}\nOriginal traceback:\n{node.stack_trace}"
    error.args = (f"{error.args[0]}\n\n{text}" if error.args else text, *error.args[1:])


class Transformer(Interpreter):
    """Makes another graph: `transform()` runs the graph on proxies, and what the methods do with them is the new one."""

    new_graph: Graph
    tracer: Tracer

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)

        class TransformerTracer(Tracer):
            def __init__(self, graph):
                super().__init__()
                self.graph, self.root, self.tensor_attrs = graph, module, {}

            def is_leaf_module(self, m, module_qualified_name):
                return True

        self.tracer = TransformerTracer(self.new_graph)

    def placeholder(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An input of the new graph."""
        default = args[0] if args else inspect.Signature.empty
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    def get_attr(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An attribute read in the new graph."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a module in the new graph, if the tracer takes it for a leaf, which it does unless told otherwise."""
        module = self.fetch_attr(target)
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def call_function(self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call in the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The module of the new graph."""
        with _patches.asking(), _fx_traceback.preserve_node_meta():
            out = super().run(enable_io_processing=False)
        if out is not None:
            node = self.new_graph.output(map_aggregate(out, lambda x: x.node if isinstance(x, Proxy) else x))
            node.meta.update(self.graph.output_node().meta)
        return GraphModule(self.module, self.new_graph)
