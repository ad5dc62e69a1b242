"""A graph: nodes in the order in which they run, and the code that they are."""

from __future__ import annotations

import builtins
import contextlib
import keyword
import re
import typing
from typing import TYPE_CHECKING

from smolder._names import listing as _listing
from smolder.fx.node import Node, map_arg, name_of_function, smolder_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import Any

    from smolder._typing import Module
    from smolder.fx.node import Target

__all__ = ["CodeGen", "Graph", "PythonCode"]
__dir__ = _listing(__name__)


class PythonCode(typing.NamedTuple):
    """The source of a graph's function, and the objects that it names."""

    src: str
    globals: dict[str, Any]


class _Namespace:
    """Names that are taken, of nodes and of globals."""

    def __init__(self):
        self._taken = set()

    def create_name(self, candidate, obj=None):
        """A name that is not taken: the candidate, or that with a number."""
        name = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        name = f"_{name}" if name[0].isdigit() else name
        stem = re.sub(r"_(\d+)$", "", name)
        number = int(name[len(stem) + 1 :]) if stem != name else 0
        while name in self._taken or keyword.iskeyword(name) or hasattr(builtins, name) or name in _OWN_NAMES:
            number += 1
            name = f"{stem}_{number}"
        self._taken.add(name)
        return name


_OWN_NAMES = {"self", "torch", "smolder", "operator", "inf", "nan", "device", "NoneType"}
_SNAKE = re.compile(r"(?<=[a-z0-9])([A-Z])")


class Graph:
    """Nodes in order. What makes nodes puts them at the end, or where `inserting_before` and `inserting_after` say."""

    owning_module: Module | None

    def __init__(
        self,
        owning_module: Module | None = None,
        tracer_cls: type | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._insert = self._root.prepend
        self._names, self._length = _Namespace(), 0
        self.owning_module, self._tracer_cls, self._codegen = owning_module, tracer_cls, CodeGen()

    # -- nodes

    @property
    def nodes(self) -> _Nodes:
        """The nodes, in order, as a list that follows changes."""
        return _Nodes(self)

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The nodes of a kind, and of a target if one is given."""
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def output_node(self) -> Node:
        """The node that says what is returned."""
        last = self._root.prev
        if last.op != "output":
            raise AssertionError("the graph has no output yet")
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
        args, kwargs = args or (), kwargs or {}
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise AssertionError("args must be a tuple and kwargs a dict")
        name = self._names.create_name(name or self._candidate(target))
        node = Node(self, name, op, target, args, kwargs, type_expr)
        self._insert(node)
        self._length += 1
        return node

    @staticmethod
    def _candidate(target):
        text = target if isinstance(target, str) else getattr(target, "__name__", type(target).__name__)
        return _SNAKE.sub(r"_\1", text.strip("_") if not isinstance(target, str) else text).lower() or "node"

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
            return
        to_erase._remove_from_list()
        to_erase._erased = True
        self._length -= 1
        to_erase._set((), {})

    @contextlib.contextmanager
    def _inserting(self, insert):
        before, self._insert = self._insert, insert
        try:
            yield
        finally:
            self._insert = before

    def inserting_before(self, n: Node | None = None) -> AbstractContextManager[None]:
        """Within it nodes are put before a node; before the first if there is none."""
        return self._inserting(self._root.next.prepend if n is None else n.prepend)

    def inserting_after(self, n: Node | None = None) -> AbstractContextManager[None]:
        """Within it nodes are put after a node, each after the one before; at the beginning if there is none."""
        place = [self._root if n is None else n]

        def insert(node):
            place[0].append(node)
            place[0] = node

        return self._inserting(insert)

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """An input."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """A parameter, buffer or other attribute of the module, by its path."""
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
                import warnings

                warnings.warn(
                    f"Attempted to insert a call_module Node with no underlying reference in the owning GraphModule! "
                    f"Call GraphModule.add_submodule to add {module_name!r}",
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
        """What the graph returns."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """A node like one of another graph; arg_transform(n) is what stands here for a node there."""
        args, kwargs = map_arg((node.args, node.kwargs), arg_transform)
        name = re.sub(r"_\d+$", "", node.name)
        out = self.create_node(node.op, node.target, args, kwargs, name, node.type)
        out.meta = dict(node.meta)
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
        out = Graph(tracer_cls=self._tracer_cls)
        result = out.graph_copy(self, val_map := {}, return_output_node=True)
        if result is not None:
            node = out.output(result[0], result[1].type)
            node.meta = dict(result[1].meta)
        if memo is not None:
            memo[id(self)] = out
            memo.update({id(old): new for old, new in val_map.items()})
        out._codegen = self._codegen
        return out

    # -- the whole

    def lint(self) -> None:
        """Raises unless names are different, nodes are read after they ran, and what they name is in the module."""
        seen, names = set(), set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for read in node.all_input_nodes:
                if read not in seen:
                    raise RuntimeError(f"Argument '{read}' of Node '{node}' was used before it has been defined!")
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen.add(node)
            names.add(node.name)
            if self.owning_module is not None and node.op in ("get_attr", "call_module"):
                self._check_target(node)

    def _check_target(self, node):
        at = self.owning_module
        for part in node.target.split("."):
            if not hasattr(at, part):
                raise RuntimeError(f"Node {node} target {node.target} references nonexistent attribute {part}")
            at = getattr(at, part)

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Removes nodes that none reads and that do nothing else; returns whether there were any."""
        kept = is_impure_node or Node.is_impure
        before = self._length
        for node in reversed(self.nodes):
            if not node.users and not kept(node):
                self.erase_node(node)
        return self._length != before

    def process_inputs(self, *args: Any) -> Any:
        """Arguments of the function as the placeholders take them."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """What the function returns, of what the output is."""
        return self._codegen.process_outputs(out)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Writes code in another way."""
        self._codegen = codegen

    def python_code(self, root_module: str = "self", **options: Any) -> PythonCode:
        """The source of a function that runs the graph, and what it names."""
        return self._codegen.write(self, root_module)

    def print_tabular(self) -> None:
        """Prints the nodes as a table."""
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [tuple(map(str, (n.op, n.name, n.target, n.args, n.kwargs))) for n in self.nodes]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        rows.insert(1, tuple("-" * w for w in widths))
        print("\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows))

    def __str__(self) -> str:
        return "graph():\n" + "\n".join(f"    {node.format_node()}" for node in self.nodes)


class _Nodes:
    def __init__(self, graph: Graph, backwards: bool = False) -> None:
        self._graph, self._backwards = graph, backwards

    def __len__(self) -> int:
        return self._graph._length

    def __iter__(self) -> Iterator[Node]:
        root = self._graph._root
        at = root._prev if self._backwards else root._next
        while at is not root:
            following = at._prev if self._backwards else at._next
            if not at._erased:
                yield at
            at = following if at._erased else (at._prev if self._backwards else at._next)

    def __reversed__(self) -> _Nodes:
        return _Nodes(self._graph, not self._backwards)


class CodeGen:
    """Writes a graph as a function."""

    def process_inputs(self, *args: Any) -> Any:
        """Arguments of the function as the placeholders take them."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """What the function returns, of what the output is."""
        return outputs

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """The line that begins the function."""
        args = ["self", *(v for v in free_vars if v != "self")]
        return f"def forward({', '.join(args)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Any) -> str:
        """The line that returns."""
        return f"return {output_args!r}"

    def write(self, graph: Graph, root: str) -> PythonCode:
        """The source, and what it names."""
        import operator

        import smolder

        space = {smolder_name(): smolder, "operator": operator, "inf": float("inf"), "nan": float("nan")}
        taken, inputs, lines = _Namespace(), [], []
        for node in graph.nodes:
            taken._taken.add(node.name)
        last = _last_uses(graph)
        for node in graph.nodes:
            line = self._line(node, root, space, taken, inputs)
            if line is None:
                continue
            done = [n.name for n in last.get(node, ()) if node.op != "output"]
            lines.append(line + (f";  {' = '.join(done)} = None" if done else ""))
        head = self.gen_fn_def(inputs, "")
        body = "\n".join(f"    {line}" for line in lines or ["pass"])
        return PythonCode(f"\n\n\n{head}\n{body}\n    ", space)

    def _line(self, node, root, space, taken, inputs):
        text = _Writer(space, taken)
        if node.op == "placeholder":
            if node.target.startswith("*"):
                inputs.append(node.target)
                name = node.target.lstrip("*")
                return None if name == node.name else f"{node.name} = {name}"
            inputs.append(node.target + (f" = {text.of(node.args[0])}" if node.args else ""))
            return None if node.target == node.name else f"{node.name} = {node.target}"
        if node.op == "output":
            return self.generate_output(_Source(text.of(node.args[0])))
        return f"{node.name} = {self._value(node, root, text)}"

    @staticmethod
    def _value(node, root, text):
        args = [text.of(a) for a in node.args]
        given = ", ".join(args + [f"{k} = {text.of(v)}" for k, v in node.kwargs.items()])
        if node.op == "get_attr":
            return _attribute(root, node.target)
        if node.op == "call_module":
            return f"{_attribute(root, node.target)}({given})"
        if node.op == "call_method":
            return f"{args[0]}.{node.target}({text.rest(node)})"
        sign = _SIGNS.get(getattr(node.target, "__name__", "")) if _is_operator(node.target) else None
        if sign and not node.kwargs:
            return sign.format(*args)
        if node.target is getattr and len(args) == 2 and str(node.args[1]).isidentifier():
            return f"{args[0]}.{node.args[1]}"
        return f"{text.function(node.target)}({given})"


class _Source:
    def __init__(self, text):
        self._text = text

    def __repr__(self):
        return self._text


class _Writer:
    """Writes arguments, and notes the objects that code has to name."""

    def __init__(self, space, taken):
        self._space, self._taken = space, taken

    def of(self, a):
        """An argument as code."""
        return repr(self._sourced(a))

    def rest(self, node):
        """All arguments of a node but the first, as code."""
        return ", ".join([self.of(a) for a in node.args[1:]] + [f"{k} = {self.of(v)}" for k, v in node.kwargs.items()])

    def function(self, target):
        """A function as code."""
        return name_of_function(target) or self._named(target)

    def _named(self, value):
        for name, held in self._space.items():
            if held is value:
                return name
        name = getattr(value, "__name__", type(value).__name__)
        name = self._taken.create_name(name if name.isidentifier() else "value")
        self._space[name] = value
        return name

    def _sourced(self, a):
        if isinstance(a, Node):
            return _Source(a.name)
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return _Source(f"{self._named(type(a))}({', '.join(map(self.of, a))})")
        if isinstance(a, tuple | list):
            return type(a)(map(self._sourced, a))
        if isinstance(a, dict):
            return {k: self._sourced(v) for k, v in a.items()}
        if isinstance(a, slice):
            return _Source(f"slice({self.of(a.start)}, {self.of(a.stop)}, {self.of(a.step)})")
        if a is None or isinstance(a, str | int | float | bool | complex | range) or a is ...:
            return _Source("...") if a is ... else a
        return _Source(self._named(a))


def _attribute(root, path):
    out = root
    for part in path.split("."):
        out = f"{out}.{part}" if part.isidentifier() and not keyword.iskeyword(part) else f'getattr({out}, "{part}")'
    return out


def _is_operator(target):
    return getattr(target, "__module__", "") in ("_operator", "operator")


_SIGNS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@"}
_SIGNS |= {"and_": "&", "or_": "|", "xor": "^", "lshift": "<<", "rshift": ">>"}
_SIGNS |= {"lt": "<", "le": "<=", "eq": "==", "ne": "!=", "ge": ">=", "gt": ">"}
_SIGNS = {name: f"{{}} {sign} {{}}" for name, sign in _SIGNS.items()}
_SIGNS |= {"neg": "-{}", "pos": "+{}", "invert": "~{}", "getitem": "{}[{}]"}


def _last_uses(graph):
    """By node, the nodes that none reads after it."""
    last, seen = {}, set()
    for node in reversed(graph.nodes):
        for read in [*node.all_input_nodes, *(() if node.users else (node,))]:
            if read not in seen and node.op not in ("placeholder", "output"):
                last.setdefault(node, []).append(read)
            seen.add(read)
    return last
