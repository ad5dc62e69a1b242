"""Stand-ins for values: what is done with one becomes a node of the graph that is traced."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from smolder._names import listing as _listing
from smolder.fx.node import Node, map_aggregate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from smolder._typing import Size, Tensor
    from smolder.fx.graph import Graph
    from smolder.fx.node import Target

__all__ = ["Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "TraceError", "TracerBase"]
__dir__ = _listing(__name__)


class TraceError(ValueError):
    """The function does what depends on a value, which a proxy has not got."""


class TracerBase:
    """Makes nodes in its `graph`, and proxies of them."""

    graph: Any = None
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    check_mutable_operations: bool = False

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A node of the graph."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Proxy:
        """What stands for the value of a node."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """A node of these arguments, in which there may be proxies, and what stands for its value."""
        args, kwargs = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, args, kwargs, name, type_expr)
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def create_arg(self, a: Any) -> Any:
        """An argument of a node: proxies become nodes. Raises NotImplementedError for what a graph can't hold."""
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, Node) or hasattr(a, "__fx_create_arg__"):
            return a if isinstance(a, Node) else a.__fx_create_arg__(self)
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return type(a)(*map(self.create_arg, a))
        if isinstance(a, tuple | list):
            return type(a)([self.create_arg(x) for x in a])
        if isinstance(a, dict):
            for key in a:
                map_aggregate(key, _refuse_proxy)
            return {k: self.create_arg(v) for k, v in a.items()}
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, range):
            return range(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if _is_constant(a):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def to_bool(self, obj: Proxy) -> bool:
        """Whether a value that a proxy stands for is true: not known."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """The parts of a value that a proxy stands for: unknown, but where as many are unpacked as a function says."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
            "**kwargs function argument. See the torch.fx docs on pytorch.org for a more detailed explanation of what "
            "types of control flow can be traced, and check out the Proxy docstring for help troubleshooting Proxy "
            "iteration errors"
        )

    def keys(self, obj: Proxy) -> Any:
        """The keys of a value that a proxy stands for, which `**` asks for."""
        return Attribute(obj, "keys")()


def _refuse_proxy(a):
    if isinstance(a, Proxy | Node):
        raise RuntimeError("Keys for dictionaries used as an argument cannot contain a Node")


def _is_constant(a):
    from smolder import Tensor, device, dtype, layout, memory_format

    kinds = (str, int, float, bool, complex, type(None), type(...), dtype, device, layout, memory_format, Tensor)
    return isinstance(a, kinds) or callable(a)


class GraphAppendingTracer(TracerBase):
    """One that only adds to a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


class Proxy:
    """Stands for the value of a node while a function is traced."""

    tracer: TracerBase
    node: Any

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, name: str) -> Attribute:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Attribute(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        import dis
        import inspect

        frame = inspect.currentframe().f_back
        for instruction in dis.get_instructions(frame.f_code):
            if instruction.offset == frame.f_lasti and instruction.opname == "UNPACK_SEQUENCE":
                return (self[i] for i in range(instruction.argval))
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope"
        )

    def keys(self) -> Any:
        """What `**` asks for."""
        return self.tracer.keys(self)

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        found = []
        map_aggregate((args, kwargs), lambda a: found.append(a.tracer) if isinstance(a, Proxy) else None)
        if not found:
            return NotImplemented
        if type(orig_method).__name__ in ("nb_method", "method_descriptor", "wrapper_descriptor"):
            return found[0].create_proxy("call_method", orig_method.__name__, args, kwargs)
        return found[0].create_proxy("call_function", orig_method, args, kwargs)


class Attribute(Proxy):
    """An attribute of a value: a method where it is called, and else a node that reads it, made when it is needed."""

    root: Proxy
    attr: str
    tracer: TracerBase

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer, self._node = root, attr, root.tracer, None

    @property
    def node(self) -> Node:
        """The node that reads the attribute."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """Stands for a parameter, whose shape and dtype are known."""

    param: Tensor
    name: str

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Tensor) -> None:
        super().__init__(node, tracer)
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Size:
        """The parameter's."""
        return self.param.shape

    def size(self) -> Size:
        """The parameter's."""
        return self.param.size()

    def dim(self) -> int:
        """The parameter's."""
        return self.param.dim()

    @property
    def ndim(self) -> int:
        """The parameter's."""
        return self.param.ndim

    def numel(self) -> int:
        """The parameter's."""
        return self.param.numel()


def _operator(name, function, reflected=False):
    def call(self, *others):
        args = (*others, self) if reflected else (self, *others)
        return self.tracer.create_proxy("call_function", function, args, {})

    call.__name__ = name
    setattr(Proxy, name, call)


_BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"]
for _name in _BINARY:
    _function = getattr(operator, _name if _name not in ("and", "or") else f"{_name}_")
    _operator(f"__{_name}__", _function)
    _operator(f"__r{_name}__", _function, reflected=True)
for _name in ["eq", "ne", "lt", "gt", "le", "ge", "getitem", "neg", "pos", "abs", "invert"]:
    _operator(f"__{_name}__", getattr(operator, _name))
Proxy.__hash__ = object.__hash__
